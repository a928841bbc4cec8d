"""Tasks: examples, training data, scores and prediction files of each, and fine-tuning and evaluation on top."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Classification": "classification.task",
        "MultipleChoice": "multiple_choice.task",
        "Regression": "regression.task",
        "SpanExtraction": "span.task",
        "Tagging": "tagging.task",
        "glue": "glue_benchmark.task",
    },
)
