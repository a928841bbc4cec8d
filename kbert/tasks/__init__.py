"""Tasks: examples, model, preprocessor, answers, training data and scores of each."""

import functools

import lazy_loader as lazy

from kbert.pipelines.registry import register_task

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
_WORDS = {
    "encoder": "Encoder",
    "pretraining": "Pretraining",
    "masked_lm": "MaskedLm",
    "next_sentence": "NextSentence",
    "classification": "Classification",
    "regression": "Regression",
    "span": "SpanExtraction",
    "tagging": "Tagging",
    "multiple_choice": "MultipleChoice",
    "similarity": "Similarity",
}
for _word, _name in _WORDS.items():
    register_task(_word, functools.partial(__getattr__, _name))
