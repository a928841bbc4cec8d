"""Regression: texts or pairs → a number."""

import dataclasses

from kbert.pipelines.task_signature import answering
from kbert.tasks.labelled_text import from_table
from kbert.tasks.metrics import NUMBER_METRICS, OWN_METRICS
from kbert.tasks.text_task import TextTask, example_columns


@dataclasses.dataclass(frozen=True)
class Regression(TextTask):
    """Predicts a number for each text or pair of texts, trained with squared error (STS-B in section 4.1 of the paper).

    Its model answers ``score``. It is also served as ``regress`` on tf.Examples.

    Args:
        text, label, text_pair, window_pooling, doc_stride, pair: see `Classification`. The labels are numbers.
        metrics: one or more of ``pearson, spearman, mean_squared_error, mean_absolute_error``. The first one chooses
            the best epoch, by the highest correlation or the lowest error.

    Raises:
        ValueError: `window_pooling` with pairs, or unknown metrics.

    Example::

        task = Regression(text="sentence1", text_pair="sentence2", label="score")
    """

    metrics: tuple[str, ...] = OWN_METRICS["regression"]

    name = "regression"
    heads = ("regressor_head",)

    def __post_init__(self):
        super().__post_init__()
        self._check_metrics(NUMBER_METRICS)

    @classmethod
    def model_class(cls):
        from kbert.models.regressor import BertRegressor

        return BertRegressor

    def parts(self, model, tokenizer, sequence_length):
        from kbert.answers.regression import RegressionAnswers

        return self.preprocessor(tokenizer, sequence_length), RegressionAnswers(self.window_pooling, name="answers")

    @classmethod
    def exported_answers(cls, labels, outputs):
        from kbert.answers.regression import RegressionAnswers

        return RegressionAnswers()

    @classmethod
    def signatures(cls, pipeline):
        plain = answering(pipeline)

        def regress(batch, inputs):
            return {"outputs": plain.finish(batch, inputs)["score"]}

        return {"regress": dataclasses.replace(plain, finish=regress, kind="regress")}

    def _from_table(self, table):
        return from_table(table, text=self.text, text_pair=self.text_pair, label=self.label)

    def _views(self, pipeline, examples, predictions):
        from kbert.inspection.examples.prediction_views import number_views

        return number_views(predictions, examples.labels, *example_columns(examples))
