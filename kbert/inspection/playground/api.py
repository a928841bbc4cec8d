"""The questions that the page asks: view and JSON object → JSON object.

Only models and vocabularies are kept between questions, so users do not affect each other.
"""

from typing import Any

from kbert.inspection.playground.answers import classification, entities, fill_mask, question_answering
from kbert.inspection.playground.encoder_views import attention, input_representation
from kbert.inspection.playground.models import PlaygroundModels
from kbert.inspection.playground.pretraining_views import masking, next_sentence
from kbert.inspection.playground.questions import RequestFields

_MASKING = "text text_pair mask_rate mask_token_rate random_token_rate whole_word seed max_predictions"
_VIEWS = {  # name → function, and the fields of its question besides the model
    "masking": (masking, _MASKING),
    "next_sentence": (next_sentence, "document other seed max_length short_rate label"),
    "input_representation": (input_representation, "text text_pair position"),
    "attention": (attention, "text text_pair layer head"),
    "fill_mask": (fill_mask, "text top"),
    "question_answering": (question_answering, "question context"),
    "entities": (entities, "text"),
    "classification": (classification, "text text_pair"),
}


class PlaygroundApi:
    """What `PlaygroundApp` serves below ``api/``."""

    views = tuple(_VIEWS)

    def __init__(self, models: PlaygroundModels) -> None:
        self.models = models

    def list_models(self) -> dict[str, Any]:
        """``models``, and ``vocabulary_default``: whether what needs no model uses a learned vocabulary."""
        return {"models": self.models.describe(), "vocabulary_default": self.models.learns_vocabulary}

    def ask(self, view: str, question: Any) -> dict[str, Any]:
        """The answer of a view; BadRequest or ValueError says what is wrong with the question."""
        function, names = _VIEWS[view]
        return function(self.models, RequestFields(question, names.split()))
