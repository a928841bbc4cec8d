"""Regression: texts or pairs → a number."""

import dataclasses

from kbert.answers.regression import RegressionAnswers
from kbert.inspection.examples.number_views import number_views
from kbert.models.regressor import BertRegressor
from kbert.pipelines.task_signature import answering
from kbert.tasks.labelled_text import from_table
from kbert.tasks.metrics import NUMBER_METRICS, OWN_METRICS
from kbert.tasks.text_task import TextPipeline, TextTask, example_columns


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


@dataclasses.dataclass(frozen=True)
class Regression(TextTask):
    """Predicts a number for each text or pair of texts, trained with squared error (STS-B in section 4.1 of the paper).

    Args:
        text, label, text_pair, window_pooling, doc_stride: see `Classification`; the labels are numbers.
        metrics: one or more of ``pearson, spearman, mean_squared_error, mean_absolute_error``; the first one chooses
            the best epoch, that of the highest correlation or of the lowest error.

    Raises:
        ValueError: `window_pooling` of pairs, unknown metrics.

    Example::

        task = Regression(text="sentence1", text_pair="sentence2", label="score")
    """

    metrics: tuple[str, ...] = OWN_METRICS["regression"]

    name = "regression"

    def __post_init__(self):
        super().__post_init__()
        self._check_metrics(NUMBER_METRICS)

    def _from_table(self, table):
        return from_table(table, text=self.text, text_pair=self.text_pair, label=self.label)

    def _views(self, pipeline, examples, predictions):
        return number_views(predictions, examples.labels, *example_columns(examples))


TASK = Regression
