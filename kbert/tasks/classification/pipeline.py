"""Classification: texts or pairs → label and probabilities.

Shapes: B batch, N labels.
"""

import dataclasses

import tensorflow as tf

from kbert.answers.classification import ClassificationAnswers
from kbert.models.classifier import BertClassifier
from kbert.pipelines.task_signature import answering
from kbert.tasks.text_pipeline import TextPipeline


class ClassificationPipeline(TextPipeline):
    """``label`` and ``probabilities`` of a text; served as ``classify`` on tf.Examples too."""

    task = "classification"
    model_class = BertClassifier
    options = ("labels", "pair", "window_pooling", "doc_stride")
    heads = ("classifier_head",)

    def parts(self, model, tokenizer, settings):
        answers = ClassificationAnswers(self.labels(model, settings), settings["window_pooling"], name="answers")
        return self.preprocessor(tokenizer, settings), answers

    def signatures(self, pipeline):
        labels, plain = list(pipeline.answers.labels), answering(pipeline)

        def classify(batch, inputs):
            scores = plain.finish(batch, inputs)["probabilities"]  # [B, N]
            classes = tf.tile(tf.constant([labels]), [tf.shape(scores)[0], 1])  # [B, N]; cut by a server into requests
            return {"classes": classes, "scores": scores}

        return {"classify": dataclasses.replace(plain, finish=classify, kind="classify")}


PIPELINE = ClassificationPipeline()
