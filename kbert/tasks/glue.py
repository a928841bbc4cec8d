"""The GLUE tasks (Wang et al. 2018) as data: columns and labels of each file, official metrics, the paper's figures."""

import dataclasses
import pathlib
from collections.abc import Mapping

from kbert.tasks.labelled_text import LabelledText, from_table
from kbert.tasks.table import read_table


@dataclasses.dataclass(frozen=True, kw_only=True)
class GlueTask:
    """One task of GLUE.

    Its files are tab separated without quoting, in the layout of the official download. A new task is one entry in
    `GLUE_TASKS`.

    Example::

        task = GLUE_TASKS["SST-2"]
        train = task.read("glue", "train")  # of glue/SST-2/train.tsv
    """

    name: str  # also the folder's name
    text: str  # column of the (first) text
    text_pair: str | None = None
    label: str = "label"
    labels: tuple[str, ...] | None = ("0", "1")  # as they stand in the file; None: regression
    score_range: tuple[float, float] = (-float("inf"), float("inf"))  # of a regression's labels
    header: tuple[str, ...] | None = None  # column names of labelled files that have no header line
    splits: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"train": "train.tsv", "dev": "dev.tsv"}
    )  # labelled files
    metrics: tuple[str, ...] = ("accuracy",)  # official; the first decides which restart is best
    paper: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)  # row -> metric -> percent

    @property
    def pair(self) -> bool:
        """Whether each example is a pair of texts."""
        return self.text_pair is not None

    @property
    def regression(self) -> bool:
        """Whether labels are numbers."""
        return self.labels is None

    def path(self, directory, split: str) -> pathlib.Path:
        """The split's file in the GLUE directory, or in the task's own."""
        if split not in self.splits:
            raise ValueError(f"{self.name} has the labelled splits {list(self.splits)}. Received: {split!r}")
        file, directory = self.splits[split], pathlib.Path(directory)
        for path in (directory / self.name / file, directory / file):
            if path.is_file():
                return path
        raise FileNotFoundError(
            f"Expected the GLUE directory, with {self.name}/{file} in it, or the task's own with {file}. "
            f"Received: {str(directory)!r}"
        )

    def read(self, directory, split: str) -> LabelledText:
        """The labelled texts of a split.

        Raises:
            FileNotFoundError: the file is not there.
            ValueError: the file is not in the official layout; the message names file and line.
        """
        columns = [c for c in (self.text, self.text_pair, self.label) if c is not None]
        table = read_table(self.path(directory, split), columns, format="tsv", header=self.header)
        return from_table(
            table, text=self.text, text_pair=self.text_pair, label=self.label, labels=self.labels,
            score_range=self.score_range,
        )  # fmt: skip


# Paper figures: "test" is Table 1, "dev" Table 5, the smaller ones Table 6 (dev, mean of 5 restarts).
GLUE_TASKS = {
    task.name: task
    for task in (
        GlueTask(
            name="SST-2",
            text="sentence",
            paper={
                "BERT-base, test": {"accuracy": 93.5},
                "BERT-large, test": {"accuracy": 94.9},
                "BERT-base, dev": {"accuracy": 92.7},
                "3 layers of 768, dev": {"accuracy": 88.4},
            },
        ),
        GlueTask(
            name="MRPC",
            text="#1 String",
            text_pair="#2 String",
            label="Quality",
            metrics=("f1", "accuracy"),
            paper={
                "BERT-base, test": {"f1": 88.9},
                "BERT-large, test": {"f1": 89.3},
                "BERT-base, dev": {"accuracy": 86.7},
                "3 layers of 768, dev": {"accuracy": 79.8},
            },
        ),
    )
}
