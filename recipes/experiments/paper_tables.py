"""The tables of Devlin et al. 2018 that compare pre-trainings, and further questions of the same kind."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from kbert.config import BertConfig
from kbert.finetuning.features.modes import PAPER as FEATURES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One system of a table: how it is pre-trained and fine-tuned, beside what all rows share.

    Attributes:
        name: as the paper calls it.
        pretraining: arguments of `kbert.pretrain` that are this row's own.
        fraction: float in (0, 1], after which fraction of the steps the model is taken.
        finetuning: options of `kbert.finetune` that are this row's own.
        feature_mode: of `kbert.finetuning.features.modes.FEATURE_MODES`: words are tagged on a frozen encoder's
            features instead of fine-tuning; None: fine-tuning.
        reference: name of the row that this one is compared with; None: the table's.
        paper: column → the paper's figure.
        paper_sign: +1 or -1: in the paper, rows like this one are above or below rows like the reference, where `paper`
            has no figures of both.
        series: the curve that the row is a point of, in a plot over steps.
    """

    name: str
    pretraining: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fraction: float = 1.0
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


BERT = "BERT"
_RANDOM_WEIGHTS = Row(name="random weights", finetuning={"random_weights": True}, paper_sign=-1)
_NO_NSP = {"next_sentence": False}
_LTR = _NO_NSP | {"left_to_right": True}
_COLUMNS = ("MNLI", "QNLI", "MRPC", "SST-2", "SQuAD")  # of table 5
_MASKS = {  # MASK, SAME, RND in percent → MNLI and NER fine-tuned, NER on features (the last four layers)
    (80, 10, 10): (84.2, 95.4, 94.9),
    (100, 0, 0): (84.3, 94.9, 94.0),
    (80, 0, 20): (84.1, 95.2, 94.6),
    (80, 20, 0): (84.4, 95.2, 94.7),
    (0, 20, 80): (83.7, 94.8, 94.6),
    (0, 0, 100): (83.6, 94.9, 94.6),
}
_SIZES = {  # layers/width/heads → masked-LM perplexity, MNLI, MRPC, SST-2
    "3/768/12": (5.84, 77.9, 79.8, 88.4),
    "6/768/3": (5.24, 80.6, 82.2, 90.7),
    "6/768/12": (4.68, 81.9, 84.8, 91.3),
    "12/768/12": (3.99, 84.4, 86.7, 92.9),
    "12/1024/16": (3.54, 85.7, 86.9, 93.3),
    "24/1024/16": (3.23, 86.6, 87.8, 93.7),
}
_MILESTONES = 5  # of figure 5


def _table5():
    def row(name, figures, reference=None, **arguments):
        return Row(name=name, paper=dict(zip(_COLUMNS, figures, strict=True)), reference=reference, **arguments)

    return Table(
        name="table5",
        title="Table 5: the pre-training tasks",
        source="section 5.1",
        reference=BERT,
        rows=(
            row(BERT, (84.4, 88.4, 86.7, 92.7, 88.5)),
            row("No NSP", (83.9, 84.9, 86.5, 92.6, 87.9), pretraining=_NO_NSP),
            row("LTR & No NSP", (82.1, 84.3, 77.5, 92.1, 77.8), "No NSP", pretraining=_LTR),
            row(
                "+ BiLSTM",
                (82.1, 84.1, 75.7, 91.6, 84.9),
                "LTR & No NSP",
                pretraining=_LTR,
                finetuning={"bilstm": True},
            ),
            _RANDOM_WEIGHTS,
        ),
    )


def _table6(sizes):
    rows, before = [], None
    for size in sizes:
        config = BertConfig.from_size(size)
        name = f"{size} ({config.num_layers}/{config.hidden_dim}/{config.num_heads})"
        rows.append(Row(name=name, pretraining={"size": size}, reference=before, paper_sign=1 if before else None))
        before = name
    columns = ("masked-LM perplexity", "MNLI", "MRPC", "SST-2")
    figures = {name: dict(zip(columns, values, strict=True)) for name, values in _SIZES.items()}
    return Table(
        name="table6",
        title="Table 6: the size of the model (layers/width/heads), each against the one before it",
        source="section 5.2",
        rows=tuple(rows),
        paper_rows=figures,
    )


def _table7():
    modes = [Row(name=mode, feature_mode=mode, paper={"NER": figure}) for mode, figure in FEATURES.items()]
    return Table(
        name="table7",
        title="Table 7: named entities, fine-tuned and on the features of a frozen encoder",
        source="section 5.3",
        reference="embeddings",
        rows=(Row(name="fine-tuned", paper={"NER": 96.4}), *modes),
    )


def _table8():
    rows, feature_mode = [], "concat-last-four"
    for (mask, same, random), (mnli, ner, features) in _MASKS.items():
        rates = {"mask_token_rate": mask / 100, "keep_rate": same / 100, "random_token_rate": random / 100}
        rows.append(
            Row(
                name=f"{mask}/{same}/{random}",
                pretraining={} if (mask, same) == (80, 10) else rates,
                paper={"MNLI": mnli, "NER": ner, f"NER {feature_mode}": features},
            )
        )
    return Table(
        name="table8",
        title="Table 8: what masked tokens become, in percent: [MASK], themselves, random tokens",
        source="appendix C.2",
        reference="80/10/10",
        rows=(*rows, _RANDOM_WEIGHTS),
        feature_columns=(feature_mode,),
    )


def _figure5():
    rows = []
    for objective, pretraining in (("MLM", {}), ("LTR", _LTR)):
        for number in range(1, _MILESTONES + 1):
            fraction = number / _MILESTONES
            of = f"after {100 * number // _MILESTONES} % of the steps"
            reference, sign = (f"MLM {of}", -1) if objective == "LTR" else (None, None)
            if objective == "MLM" and number > 1:
                reference, sign = rows[-1].name, 1
            rows.append(
                Row(
                    name=f"{objective} {of}",
                    pretraining=pretraining,
                    fraction=fraction,
                    reference=reference,
                    paper_sign=sign,
                    series=objective,
                )
            )
    return Table(
        name="figure5",
        title="Figure 5: the number of steps, masked LM and left-to-right",
        source="appendix C.1",
        rows=tuple(rows),
    )


def _of_pretraining(name, title, source, reference, **others):
    rows = (Row(name=reference), *(Row(name=row, pretraining=arguments) for row, arguments in others.items()))
    return Table(name=name, title=title, source=source, reference=reference, rows=rows)


def _masking(names=None):
    rows = {} if names is None else {"names": {"names": str(names)}}
    rows |= {
        "whole words": {"whole_word": True},
        "spans of 3 tokens": {"span_length": 3},
        "mask rate 30 %": {"mask_rate": 0.3},
        "the same masks in every epoch": {"dupe_factor": 1},
        "10 different masks": {"dupe_factor": 10},
    }
    title = "What is masked, and how often anew"
    source = "not in the paper; whole words: Google's release of May 2019; names: ERNIE (Sun et al. 2019)"
    return _of_pretraining("masking", title, source, BERT, **rows)


def _next_sentence():
    rows = {f"{rate:.0%} random".replace("%", " %"): {"random_next_rate": rate} for rate in (0.25, 0.75)}
    rows["No NSP"] = _NO_NSP
    return _of_pretraining("next-sentence", "How many next sentences are random", "not in the paper", BERT, **rows)


def _positions():
    rows = {"sinusoidal": {"position_embedding": "sinusoidal"}}
    title = "Learned positions, and the Transformer's sines"
    source = "not in the paper"
    return _of_pretraining("positions", title, source, "learned", **rows)


def _pretraining():
    return Table(
        name="pretraining",
        title="Pre-training, and random weights of its architecture",
        source="the paper's claim",
        reference=BERT,
        rows=(Row(name=BERT), _RANDOM_WEIGHTS),
    )


_TABLES = {
    "table5": _table5,
    "table6": _table6,
    "table7": _table7,
    "table8": _table8,
    "figure5": _figure5,
    "pretraining": _pretraining,
    "masking": _masking,
    "next-sentence": _next_sentence,
    "positions": _positions,
}
TABLES = tuple(_TABLES)


def paper_table(name: str, sizes: Sequence[str] = ("tiny", "mini", "small"), names=None) -> Table:
    """A table by its name.

    Args:
        name: one of `TABLES`.
        sizes: the sizes of table 6, smallest first.
        names: path of a file of names, of which "masking" then has a row.

    Example::

        paper_table("table5").rows[1].pretraining  # {"next_sentence": False}
    """
    if name not in _TABLES:
        raise ValueError(f"paper_table: `name` must be one of {TABLES}. Received: {name!r}")
    own = {"table6": (sizes,), "masking": (names,)}
    return _TABLES[name](*own.get(name, ()))


def needs_milestones(pretraining) -> bool:
    """Whether a pre-training with these arguments of a row is one of figure 5's, whose checkpoints are kept."""
    return any(dict(row.pretraining) == dict(pretraining) for row in _figure5().rows)


def milestone(steps: int, fraction: float) -> int:
    """The step after a fraction of a run: a multiple of what `kept_every` gives."""
    return steps if fraction == 1.0 else round(fraction * _MILESTONES) * kept_every(steps)


def kept_every(steps: int) -> int:
    """The interval of the checkpoints that figure 5 reads: a fifth of the steps, down to three digits.

    Numbers with zeros at the end have divisors, as the intervals of checkpoints between them must be.
    """
    if steps < _MILESTONES:
        raise ValueError(f"figure5: expected at least {_MILESTONES} steps, one a point. Received: {steps}")
    every = steps // _MILESTONES
    unit = 10 ** max(0, len(str(every)) - 3)
    return every // unit * unit
