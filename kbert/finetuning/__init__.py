"""Fine-tuning, evaluation and predictions of models of a task."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "finetune_glue": "grid",
        "finetune_grid": "grid",
        "predict_file": "predict_file",
        "predict_file_with_beam": "predict_file",
        "read_rows": "prediction_rows",
    },
)
