"""The questions that the page asks: view and JSON object → JSON object.

Only models and vocabularies are kept between questions, so users do not affect each other.
"""

from typing import Any

from kbert.inspection.playground import answers, attention, input_representation, masking, next_sentence
from kbert.inspection.playground.playground_models import PlaygroundModels
from kbert.inspection.playground.request_fields import RequestFields

_VIEWS = {
    "masking": (masking.masking, masking.FIELDS),
    "next_sentence": (next_sentence.next_sentence, next_sentence.FIELDS),
    "input_representation": (input_representation.input_representation, input_representation.FIELDS),
    "attention": (attention.attention, attention.FIELDS),
    "fill_mask": (answers.fill_mask, answers.FILL_MASK_FIELDS),
    "question_answering": (answers.question_answering, answers.QUESTION_ANSWERING_FIELDS),
    "entities": (answers.entities, answers.ENTITIES_FIELDS),
    "classification": (answers.classification, answers.CLASSIFICATION_FIELDS),
}


class PlaygroundApi:
    """What `PlaygroundApp` serves below ``api/``."""

    views = tuple(_VIEWS)

    def __init__(self, models: PlaygroundModels):
        self.models = models

    def list_models(self) -> dict[str, Any]:
        """``models``, and ``vocabulary_default``: whether what needs no model uses a learned vocabulary."""
        return {"models": self.models.describe(), "vocabulary_default": self.models.learns_vocabulary}

    def ask(self, view: str, question: Any) -> dict[str, Any]:
        """The answer of a view; BadRequest or ValueError says what is wrong with the question."""
        function, known = _VIEWS[view]
        return function(self.models, RequestFields(question, known))
