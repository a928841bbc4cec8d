"""A pre-trained model with both heads: fills masks, and when served also predicts the next sentence."""

import dataclasses

from kbert.pipelines.task_signature import TaskSignature
from kbert.tasks.masked_lm import MaskedLm


@dataclasses.dataclass(frozen=True)
class Pretraining(MaskedLm):
    """A masked language model, with a signature for its next-sentence head.

    Args:
        max_masks, masking, top_k: see `MaskedLm`.
    """

    name = "pretraining"
    heads = ("masked_lm_head", "next_sentence_head")
    model_arguments = {"masked_lm": True, "next_sentence": True}

    @classmethod
    def signatures(cls, pipeline):
        return super().signatures(pipeline) | {"next_sentence": _next_sentence(pipeline)}


def _next_sentence(pipeline) -> TaskSignature:
    import keras

    from kbert.answers.next_sentence import NextSentenceAnswers
    from kbert.pipelines.run_in_length_buckets import run_in_length_buckets
    from kbert.preprocessing.text_preprocessor import TextPreprocessor

    model = pipeline.model
    tokenizer = pipeline.tokenizer
    settings = pipeline.settings()["tokenizer"]  # the model's own: fill-mask always reads [MASK] in the text
    if settings != tokenizer.settings():
        tokenizer = type(tokenizer)(tokenizer.vocabulary, **settings)
    preprocessor = TextPreprocessor(tokenizer, pipeline.preprocessor.sequence_length, pair=True)
    # The part of the model that this output needs; it shares the model's layers.
    inputs = {name: model.input[name] for name in model.encoder.input}
    head = keras.Model(inputs, {"nsp_logits": model.output["nsp_logits"]})
    answers = NextSentenceAnswers()

    def finish(batch, inputs):
        return answers(run_in_length_buckets(head, batch, token_outputs=()), batch)

    return TaskSignature(finish, preprocessor)
