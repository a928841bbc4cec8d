"""Tasks: examples, training data, scores and prediction files of each, and fine-tuning and evaluation on top."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Classification": "classification.task",
        "Evaluation": "task",
        "Examples": "examples",
        "MultipleChoice": "multiple_choice.task",
        "Regression": "regression.task",
        "SpanExtraction": "span.task",
        "Tagging": "tagging.task",
        "Task": "task",
        "evaluate_pretraining": "pretraining.evaluate_pretraining",
        "finetune_grid": "finetune_grid",
        "glue": "glue_benchmark.task",
        "predict_file": "predict_file",
        "predict_file_with_beam": "predict_file_with_beam",
        "read_columns": "in_memory",
        "read_rows": "prediction_rows",
    },
)
