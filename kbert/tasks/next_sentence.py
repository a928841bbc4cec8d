"""Pairs of texts → the probability that the second follows the first."""

import dataclasses

from kbert.pipelines.task_signature import answering
from kbert.tasks.task import Task, of_model


@dataclasses.dataclass(frozen=True)
class NextSentence(Task):
    """Says whether the second text of a pair follows the first: ``is_next``.

    Args:
        pair: whether the texts come in pairs, always True.

    Raises:
        ValueError: on `check_options`, texts that do not come in pairs.
    """

    pair: bool = of_model(True)

    name = "next_sentence"
    is_finetuned = False
    heads = ("next_sentence_head",)
    playground_views = ()  # its view is there for every model
    model_arguments = {"masked_lm": False, "next_sentence": True}

    @classmethod
    def model_class(cls):
        from kbert.models.pretrainer import BertPretrainer

        return BertPretrainer

    def parts(self, model, tokenizer, sequence_length):
        from kbert.answers.next_sentence import NextSentenceAnswers
        from kbert.preprocessing.text_preprocessor import TextPreprocessor

        preprocessor = TextPreprocessor(tokenizer, sequence_length, pair=True, name="preprocessor")
        return preprocessor, NextSentenceAnswers(name="answers")

    def check_options(self, given):
        if "pair" in given and not self.pair:
            raise ValueError("a next_sentence model reads pairs of texts. Received: pair=False")

    @classmethod
    def exported_answers(cls, labels, outputs):
        from kbert.answers.next_sentence import NextSentenceAnswers

        return NextSentenceAnswers()

    @classmethod
    def signatures(cls, pipeline):
        return {"next_sentence": answering(pipeline)}
