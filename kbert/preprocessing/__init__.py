"""Strings → batches, in graph: the preprocessors of every task, windows over long texts, length buckets."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ChoicePreprocessor": "preprocessor",
        "DocumentPreprocessor": "window_preprocessors",
        "FillMaskPreprocessor": "fill_mask_preprocessor",
        "Preprocessor": "preprocessor",
        "SpanPreprocessor": "window_preprocessors",
        "TaggingPreprocessor": "window_preprocessors",
        "TextPreprocessor": "preprocessor",
    },
)
