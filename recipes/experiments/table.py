"""What a table of the paper compares, as plain data."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One system of a table: how it is pre-trained and fine-tuned, beside what all rows share.

    Attributes:
        name: as the paper calls it.
        pretraining: arguments of `kbert.pretrain` that are this row's own.
        share: float in (0, 1], after which share of the steps the model is taken.
        finetuning: options of `kbert.finetune` that are this row's own.
        feature_mode: of `kbert.models.feature_modes.FEATURE_MODES`: words are tagged on a frozen encoder's features
            instead of fine-tuning; None: fine-tuning.
        reference: name of the row that this one is compared with; None: the table's.
        paper: column → the paper's figure.
        paper_sign: +1 or -1: in the paper, rows like this one are above or below rows like the reference, where `paper`
            has no figures of both.
        series: the curve that the row is a point of, in a plot over steps.
    """

    name: str
    pretraining: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    share: float = 1.0
    finetuning: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    feature_mode: str | None = None
    reference: str | None = None
    paper: Mapping[str, float] = dataclasses.field(default_factory=dict)
    paper_sign: int | None = None
    series: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Rows to compare, and the paper's figures for them.

    Attributes:
        name: the word on the command line.
        title: one line.
        source: the section of the paper, or of whom the question is.
        rows: `Row` objects; their names differ.
        reference: name of the row that others are compared with; None: each row names its own, or none.
        feature_columns: feature modes that each row is scored with as well, on the tagging task.
        paper_rows: name → {column: figure}, of systems that no row stands for.

    Raises:
        ValueError: two rows of a name, or a reference that is no row.
    """

    name: str
    title: str
    source: str
    rows: tuple[Row, ...]
    reference: str | None = None
    feature_columns: tuple[str, ...] = ()
    paper_rows: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        names = [row.name for row in self.rows]
        if len(set(names)) < len(names):
            raise ValueError(f"Table {self.name}: expected rows of different names. Received: {names}")
        for name in (self.reference, *(row.reference for row in self.rows)):
            if name is not None and name not in names:
                raise ValueError(f"Table {self.name}: expected a row as reference, of {names}. Received: {name!r}")

    @property
    def has_features(self) -> bool:
        """Whether some figure is of a tagger on features."""
        return bool(self.feature_columns) or any(row.feature_mode for row in self.rows)

    def reference_of(self, row: Row) -> Row | None:
        """The row that a row is compared with; None for the reference itself."""
        name = row.reference or self.reference
        return None if name in (None, row.name) else next(other for other in self.rows if other.name == name)
