"""Imports every class that a saved pipeline can hold: Keras finds those of a file only once they are registered."""

from kbert.answers import choice, classification, embedding, entities, fill_mask, next_sentence, regression, spans, tags
from kbert.models import classifier, encoder, multiple_choice, pretrainer, regressor, span_extractor, tagger
from kbert.preprocessing import (
    choice_preprocessor,
    document_preprocessor,
    fill_mask_preprocessor,
    span_preprocessor,
    tagging_preprocessor,
    text_preprocessor,
)

__all__ = [
    "choice",
    "choice_preprocessor",
    "classification",
    "classifier",
    "document_preprocessor",
    "embedding",
    "encoder",
    "entities",
    "fill_mask",
    "fill_mask_preprocessor",
    "multiple_choice",
    "next_sentence",
    "pretrainer",
    "regression",
    "regressor",
    "span_extractor",
    "span_preprocessor",
    "spans",
    "tagger",
    "tagging_preprocessor",
    "tags",
    "text_preprocessor",
]
