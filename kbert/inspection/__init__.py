"""Shows what a model is trained on and what it predicts."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "DevExamples": "examples.dev_examples",
        "Inspection": "analysis.report",
        "MaskedExamples": "examples.masked_examples",
        "TensorBoard": "board.tensor_board",
        "View": "view",
        "inspect": "inspect_model",
    },
)
