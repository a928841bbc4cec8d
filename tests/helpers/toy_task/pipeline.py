"""Texts → how polite they are."""

import keras
import tensorflow as tf

from helpers.toy_task.model import BertPoliteness
from kbert.answers.answers import Answers
from kbert.pipelines.task_pipeline import TaskPipeline
from kbert.pipelines.task_signature import answering
from kbert.preprocessing.text_preprocessor import TextPreprocessor


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

    def compute_output_spec(self, outputs, batch):
        shape = outputs["politeness"].shape
        kinds = {"politeness": "float32", "verdict": "string"}
        return {name: keras.KerasTensor(shape, dtype=kind) for name, kind in kinds.items()}

    def to_dicts(self, answers):
        for politeness, verdict in zip(answers["politeness"].tolist(), answers["verdict"], strict=True):
            yield {"politeness": politeness, "verdict": verdict}


class PolitenessPipeline(TaskPipeline):
    """The task, as kbert knows it."""

    task = "politeness"
    model_class = BertPoliteness
    options = ("threshold",)
    defaults = {"threshold": 0.5}
    heads = ("politeness_head",)
    head_variables = {"politeness_head/dense/kernel": "H1", "politeness_head/dense/bias": "1"}

    def parts(self, model, tokenizer, settings):
        preprocessor = TextPreprocessor(tokenizer, settings["sequence_length"], name="preprocessor")
        return preprocessor, PolitenessAnswers(settings["threshold"], name="answers")

    def signatures(self, pipeline):
        return {"politeness": answering(pipeline)}


PIPELINE = PolitenessPipeline()
