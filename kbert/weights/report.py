"""The report of loading weights: what happened to each variable."""

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Collection
from typing import Any

_LOGGER = logging.getLogger("kbert")
LOADED, NEW, UNUSED = "loaded", "newly initialised", "unused"
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

    def without(self, variables: Collection[str]) -> "LoadReport":
        """This report, with these variables of the model newly initialised instead of loaded."""
        new = [r for r in self.rows if r.variable in variables and r.status == LOADED]
        rows = [ReportRow(r.variable, "", NEW) if r in new else r for r in self.rows]
        return dataclasses.replace(self, rows=rows + [ReportRow("", r.source, UNUSED) for r in new])

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

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for a JSON file."""
        return {
            "source": self.source,
            "remarks": list(self.remarks),
            "variables": [dataclasses.asdict(row) for row in self.rows],
        }

    def __str__(self):
        width = max((len(row.variable or row.source) for row in self.rows), default=0)
        return "\n".join(
            f"{row.variable or row.source:<{width}}  {row.status}"
            + (f"  {row.source}" if row.variable and row.source not in ("", row.variable) else "")
            for row in self.rows
        )


def transfer(stored, model, source: str) -> LoadReport:
    """Assigns every variable of a model that is stored under its name with its shape.

    `stored` maps a name to (shape, function that reads the values).
    """
    rows, missing, unused = [], [], dict.fromkeys(stored)
    needed = {v.path for v in model.encoder.weights if not v.path.startswith("pooler/")}
    for variable in model.weights:
        shape, read = stored.get(variable.path, (None, None))
        if shape == tuple(variable.shape):
            variable.assign(read())
            rows.append(ReportRow(variable.path, variable.path, LOADED))
            del unused[variable.path]
        else:
            rows.append(ReportRow(variable.path, "", NEW))
            if variable.path in needed:
                missing.append(variable.path)
    if missing:
        raise ValueError(f"{source} lacks variables of the encoder. Missing: {missing}")
    rows += [ReportRow("", path, UNUSED) for path in unused]
    return LoadReport(source, rows)


def all_loaded(model, source: str) -> LoadReport:
    return LoadReport(source, [ReportRow(v.path, v.path, LOADED) for v in model.weights])
