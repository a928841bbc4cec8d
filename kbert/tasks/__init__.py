"""Tasks: examples, model, preprocessor, answers, training data and scores of each."""

import functools

from kbert.lazy import lazy_exports
from kbert.pipelines.registry import register_task

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Classification": "text_task",
        "Encoder": "encoder",
        "Evaluation": "task",
        "Examples": "examples",
        "MaskedLm": "pretraining",
        "MultipleChoice": "multiple_choice",
        "NextSentence": "pretraining",
        "Pretraining": "pretraining",
        "Regression": "text_task",
        "Similarity": "similarity",
        "SpanExtraction": "span.task",
        "Tagging": "tagging.task",
        "Task": "task",
        "TaskSignature": "task",
        "glue": "glue_benchmark.tasks",
        "of_model": "task",
        "read_columns": "in_memory",
        "search_scores": "metrics",
    },
)
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
