"""Classification: texts or pairs → label and probabilities.

Shapes: B batch, N labels.
"""

import dataclasses

import tensorflow as tf

from kbert.answers.classification import ClassificationAnswers
from kbert.answers.multi_label import MultiLabelAnswers
from kbert.models.classifier import BertClassifier
from kbert.pipelines.task_signature import answering
from kbert.tasks.text_pipeline import TextPipeline


class ClassificationPipeline(TextPipeline):
    """``label`` and ``probabilities`` of a text; served as ``classify`` on tf.Examples too."""

    task = "classification"
    model_class = BertClassifier
    options = ("labels", "pair", "thresholds", "window_pooling", "doc_stride")
    heads = ("classifier_head",)

    def parts(self, model, tokenizer, settings):
        labels, thresholds = self.labels(model, settings), settings["thresholds"]
        if model.multi_label:
            answers = MultiLabelAnswers(labels, thresholds, settings["window_pooling"], name="answers")
        elif thresholds is not None:
            raise ValueError("build_pipeline: `thresholds` are a multi-label classifier's (multi_label=True).")
        else:
            answers = ClassificationAnswers(labels, settings["window_pooling"], name="answers")
        return self.preprocessor(tokenizer, settings), answers

    def exported_answers(self, labels, outputs):
        return MultiLabelAnswers(labels) if "is_on" in outputs else ClassificationAnswers(labels)

    def signatures(self, pipeline):
        labels, plain = list(pipeline.answers.labels), answering(pipeline)

        def classify(batch, inputs):
            scores = plain.finish(batch, inputs)["probabilities"]  # [B, N]
            classes = tf.tile(tf.constant([labels]), [tf.shape(scores)[0], 1])  # [B, N]; cut by a server into requests
            return {"classes": classes, "scores": scores}

        return {"classify": dataclasses.replace(plain, finish=classify, kind="classify")}


PIPELINE = ClassificationPipeline()
