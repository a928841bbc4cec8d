"""The report of loading weights: what happened to each variable."""

import dataclasses
import functools
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from kbert.keras_compat import set_value

if TYPE_CHECKING:
    from kbert.config import BertConfig
    from kbert.models.bert_model import BertModel

_LOGGER = logging.getLogger("kbert")
LOADED = "loaded"
NEW = "newly initialised"
UNUSED = "unused"
# The part of the model in a variable's name, in all formats; the encoder's parts may be in "bert".
_PART = re.compile(r"(?:bert[/.])?[^/.]*")
_LAYER = re.compile(r"((?:encoder_block|layer)[_.])\d+")  # in the names of all formats


@dataclasses.dataclass(frozen=True)
class ReportRow:
    """One variable: its name in the model, its name in the source ("" if there is none), and what happened."""

    variable: str
    source: str
    status: str


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What was loaded: a row for each variable of the model, then one for each unused variable of the source.

    Attributes:
        source: path or name of what was loaded.
        rows: each with ``variable``, the name in the model, ``source``, the name in the source, and ``status``. A name
            that does not exist is "".
        remarks: lines that say how kbert decided what the source does not specify.

    Example::

        report = load_pretrained("runs/pretrain/model", task="classification").pretrained.report
        [row.variable for row in report.newly_initialised]  # ["classifier_head/dense/kernel", ...]
    """

    source: str
    rows: list[ReportRow]
    remarks: tuple[str, ...] = ()

    @property
    def newly_initialised(self) -> list[ReportRow]:
        """Rows of the variables of the model that the source does not hold."""
        return [row for row in self.rows if row.status == NEW]

    @property
    def unused(self) -> list[ReportRow]:
        """Rows of the variables of the source that the model does not have."""
        return [row for row in self.rows if row.status == UNUSED]

    def log(self) -> None:
        """Logs the totals, a line for each part that is new or not used, and the whole table at level DEBUG."""
        new = Counter(row.variable.split("/")[0] for row in self.newly_initialised)
        unused = Counter(_PART.match(row.source)[0] for row in self.unused)
        _LOGGER.info("%s", self.totals())
        for part, count in new.items():  # a warning: its answers mean nothing before it is trained
            _LOGGER.warning("%s: newly initialised (%d variables not in %s)", part, count, self.source)
        for part, count in unused.items():
            _LOGGER.info("%s: unused (%d variables)", part, count)
        for line in self.table():
            _LOGGER.debug("%s", line)

    def totals(self) -> str:
        """A line of text: how many variables were loaded, new, unused."""
        totals = Counter(row.status for row in self.rows)
        return f"{self.source}: " + ", ".join(f"{totals[status]} {status}" for status in (LOADED, NEW, UNUSED))

    def table(self) -> list[str]:
        """The rows as text, with equal layers in one row, below a line of totals and the remarks."""
        head = [self.totals()] + [f"  {remark}" for remark in self.remarks]
        groups = Counter((_LAYER.sub(r"\1*", r.variable), _LAYER.sub(r"\1*", r.source), r.status) for r in self.rows)
        width = max((len(variable) for variable, _, _ in groups), default=0)
        return head + [
            f"  {variable or '-':<{width}}  {source or '-'}  {status}" + (f" ({count} layers)" if count > 1 else "")
            for (variable, source, status), count in groups.items()
        ]

    def __str__(self):
        return "\n".join(self.table())


def transfer(
    model: "BertModel",
    find: Callable[[Any], str | None],
    read: Callable[[Any, str], Any],
    names: Iterable[str],
    source: str,
    remarks: tuple[str, ...] = (),
    new_layers: Collection[str] = (),
) -> LoadReport:
    """Assigns every variable of a model that is stored, except in `new_layers`.

    `find` gives the name of a variable in the source, None if it is not there with its shape; `read` the values of a
    variable by that name; `names` are all names in the source.
    """
    places = {v.path: None if v.path.split("/")[0] in new_layers else find(v) for v in model.weights}
    needed = [variable.path for variable in model.encoder.weights if not variable.path.startswith("pooler/")]
    if missing := [path for path in needed if places[path] is None]:
        raise ValueError(f"{source} lacks variables of the encoder, or has others of their names: {missing}")
    rows = []
    for variable in model.weights:
        name = places[variable.path]
        if name is not None:
            set_value(variable, functools.partial(read, variable, name))
        rows.append(ReportRow(variable.path, name or "", NEW if name is None else LOADED))
    used = set(places.values())
    return LoadReport(source, rows + [ReportRow("", name, UNUSED) for name in names if name not in used], remarks)


def all_loaded(model: "BertModel", source: str) -> LoadReport:
    return LoadReport(source, [ReportRow(v.path, v.path, LOADED) for v in model.weights])


def log_dropout(config: "BertConfig", source: Any, dropout: float | None) -> None:
    """Logs that a model is trained further without dropout, if that is the source's choice and not the caller's."""
    if dropout is None and not config.hidden_dropout and not config.attention_dropout:
        is_loaded = isinstance(source, str | os.PathLike)
        hint = "; `dropout=0.1` (--dropout 0.1) sets the paper's" if is_loaded else ""
        _LOGGER.info("dropout is 0, as in the source%s", hint)
