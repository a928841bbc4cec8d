"""Strings → batches, in graph: the preprocessors of every task, windows over long texts, length buckets."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ChoicePreprocessor": "choice_preprocessor",
        "DocumentPreprocessor": "document_preprocessor",
        "FillMaskPreprocessor": "fill_mask_preprocessor",
        "Preprocessor": "preprocessor",
        "SpanPreprocessor": "span_preprocessor",
        "TaggingPreprocessor": "tagging_preprocessor",
        "TextPreprocessor": "text_preprocessor",
    },
)
