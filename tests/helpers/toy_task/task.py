"""How the task is fine-tuned and scored: texts with a degree of politeness each."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kbert.preprocessing.buckets import trim_padding
from kbert.tasks.examples import Examples
from kbert.tasks.in_memory import text_table
from kbert.tasks.scores import predict_scores
from kbert.tasks.table import read_table
from kbert.tasks.task import Evaluation, Task, TrainingData
from kbert.tasks.training_data import real_tokens, row_batches, token_counts


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PoliteTexts(Examples):
    """Texts, and how polite each is."""

    texts: Sequence[str]
    degrees: np.ndarray
    path: str | None = None
    lines: Sequence[int] = ()

    row_fields = ("texts", "degrees")

    @property
    def columns(self):
        return {"text": self.texts}

    def baseline(self):
        return float(self.degrees.mean())


@dataclasses.dataclass(frozen=True)
class Politeness(Task):
    """Says how polite texts are; `text` and `label` are names of columns."""

    text: str = "text"
    label: str = "politeness"
    metrics: tuple[str, ...] = ("agreement",)

    name = "politeness"

    def read(self, path):
        return self._from_table(read_table(path, [self.text, self.label]))

    def from_memory(self, data):
        return self._from_table(text_table(data, [self.text, self.label]))

    def settings(self, train):
        return {}

    def training_data(self, pipeline, train, *, batch_size, seed, padding, group_by_length):
        sizes = token_counts(train, pipeline.preprocessor) if group_by_length else None
        texts, degrees = tf.constant(train.texts), tf.constant(train.degrees)

        @tf.autograph.experimental.do_not_convert
        def batch(rows):
            inputs = pipeline.preprocessor({"text": tf.gather(texts, rows)})
            return trim_padding(inputs, padding), {"politeness": tf.gather(degrees, rows)}

        def make_dataset(start_step=0):
            options = {"batch_size": batch_size, "seed": seed, "start_step": start_step, "sizes": sizes}
            return row_batches(len(train), **options).map(batch)

        return TrainingData(len(train), len(train), real_tokens(train, pipeline.preprocessor), make_dataset)

    def evaluate(self, pipeline, examples, *, batch_size=32, static=False, choose=False):
        options = {"batch_size": batch_size, "static": static}
        found = predict_scores(pipeline.model, pipeline.preprocessor, examples.columns, **options)
        chosen = {"threshold": float(np.median(found))} if choose else {}
        return Evaluation({"examples": len(examples)} | self._scores(found, examples), found, chosen)

    def baseline_scores(self, answer, examples):
        return self._scores(answer, examples)

    def _scores(self, degrees, examples):
        """1 minus the mean distance."""
        return {"agreement": 1.0 - float(np.mean(np.abs(degrees - examples.degrees)))}

    def _from_table(self, table):
        degrees = np.array([float(cell) for cell in table[self.label]], "float32")
        return PoliteTexts(table[self.text], degrees, table.path, table.lines)


TASK = Politeness
