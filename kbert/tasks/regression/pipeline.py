"""Regression: texts or pairs → a number."""

import dataclasses

from kbert.answers.regression import RegressionAnswers
from kbert.models.regressor import BertRegressor
from kbert.pipelines.task_signature import answering
from kbert.tasks.text_pipeline import TextPipeline


class RegressionPipeline(TextPipeline):
    """``score`` of a text; served as ``regress`` on tf.Examples too."""

    task = "regression"
    model_class = BertRegressor
    options = ("pair", "window_pooling", "doc_stride")
    heads = ("regressor_head",)

    def parts(self, model, tokenizer, settings):
        return self.preprocessor(tokenizer, settings), RegressionAnswers(settings["window_pooling"], name="answers")

    def exported_answers(self, labels, outputs):
        return RegressionAnswers()

    def signatures(self, pipeline):
        plain = answering(pipeline)

        def regress(batch, inputs):
            return {"outputs": plain.finish(batch, inputs)["score"]}

        return {"regress": dataclasses.replace(plain, finish=regress, kind="regress")}


PIPELINE = RegressionPipeline()
