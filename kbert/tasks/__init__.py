"""Tasks: examples, model, preprocessor, answers, training data and scores of each."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Classification": "classification",
        "Evaluation": "task",
        "Examples": "examples",
        "MultipleChoice": "multiple_choice.task",
        "Regression": "regression",
        "SpanExtraction": "span.task",
        "Tagging": "tagging.task",
        "Task": "task",
        "glue": "glue_benchmark.task",
        "read_columns": "in_memory",
    },
)
