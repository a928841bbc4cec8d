"""A task from outside kbert in one file: how polite a text is. It is registered by one line.

register_task("politeness", lambda: Politeness)
"""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from kbert.answers.answers import Answers
from kbert.layers.task_head import TaskHead
from kbert.models.bert_model import BertModel
from kbert.models.resolve_encoder import resolve_encoder
from kbert.optim.losses import RegressionLoss
from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.tasks.examples import Examples
from kbert.tasks.scores import predict_scores
from kbert.tasks.task import Evaluation, Task, answering, of_model
from kbert.tasks.training_data import as_training_data, example_rows, real_tokens


@keras.saving.register_keras_serializable("toy")
class BertPoliteness(BertModel):
    """Encoder, then one linear unit on the pooled [CLS]; ``politeness`` [B]."""

    task = "politeness"

    def __init__(self, encoder, dtype=None, **kwargs):
        encoder = resolve_encoder(encoder, dtype=dtype, needs=("pooled_output",))
        head = TaskHead(1, dtype=encoder.dtype_policy, name="politeness_head")
        score = head(encoder(encoder.input)["pooled_output"])[..., 0]
        super().__init__(encoder.input, {"politeness": score}, dtype=encoder.dtype_policy, **kwargs)
        self.config = encoder.config
        self.encoder = encoder

    def default_loss(self):
        return {"politeness": RegressionLoss()}

    def get_config(self):
        return super().get_config() | {"encoder": keras.saving.serialize_keras_object(self.encoder)}


@keras.saving.register_keras_serializable("toy")
class PolitenessAnswers(Answers):
    """``politeness`` and whether it exceeds the threshold, ``verdict``."""

    option_names = ("threshold",)

    def __init__(self, threshold=0.0, **kwargs):
        super().__init__(**kwargs)
        self.threshold = threshold

    def call(self, outputs, batch):
        score = tf.cast(outputs["politeness"], tf.float32)
        return {"politeness": score, "verdict": tf.where(score > self.threshold, "polite", "rude")}

    def to_dicts(self, answers):
        for politeness, verdict in zip(answers["politeness"].tolist(), answers["verdict"], strict=True):
            yield {"politeness": politeness, "verdict": verdict}


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
    """Says how polite texts are.

    Args:
        text, label: names of columns.
        threshold: of the degree, above which a text is called polite.
    """

    text: str = "text"
    label: str = "politeness"
    threshold: float = of_model(0.5)
    metrics: tuple[str, ...] = ("agreement",)

    name = "politeness"
    heads = ("politeness_head",)

    @classmethod
    def model_class(cls):
        return BertPoliteness

    def parts(self, model, tokenizer, sequence_length):
        preprocessor = TextPreprocessor(tokenizer, sequence_length, name="preprocessor")
        return preprocessor, PolitenessAnswers(self.threshold, name="answers")

    @classmethod
    def signatures(cls, pipeline):
        return {"politeness": answering(pipeline)}

    @property
    def table_columns(self):
        return [self.text, self.label]

    def training_data(self, pipeline, train, **batches):
        rows = example_rows(train, pipeline.preprocessor, labels={"politeness": train.degrees})
        return as_training_data(rows, real_tokens(train, pipeline.preprocessor), **batches)

    def evaluate(self, pipeline, examples, *, batch_size=32, static=False, choose=False):
        degrees = predict_scores(pipeline, examples.columns, batch_size=batch_size, static=static)
        chosen = {"threshold": float(np.median(degrees))} if choose else {}
        return Evaluation({"examples": len(examples)} | self._scores(degrees, examples), degrees, chosen)

    def baseline_scores(self, answer, examples):
        return self._scores(answer, examples)

    def _scores(self, degrees, examples):
        """1 minus the mean distance."""
        return {"agreement": 1.0 - float(np.mean(np.abs(degrees - examples.degrees)))}

    def _from_table(self, table):
        degrees = np.array([float(cell) for cell in table[self.label]], "float32")
        return PoliteTexts(table[self.text], degrees, table.path, table.lines)
