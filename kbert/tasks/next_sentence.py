"""Pairs of texts → the probability that the second follows the first."""

from kbert.answers.next_sentence import NextSentenceAnswers
from kbert.models.pretrainer import BertPretrainer
from kbert.pipelines.task_pipeline import TaskPipeline
from kbert.pipelines.task_signature import answering
from kbert.preprocessing.text_preprocessor import TextPreprocessor


class NextSentencePipeline(TaskPipeline):
    """``is_next`` of a pair of texts."""

    task = "next_sentence"
    model_class = BertPretrainer
    model_arguments = {"masked_lm": False, "next_sentence": True}
    options = ("pair",)
    heads = ("next_sentence_head",)

    def parts(self, model, tokenizer, settings):
        preprocessor = TextPreprocessor(tokenizer, settings["sequence_length"], pair=True, name="preprocessor")
        return preprocessor, NextSentenceAnswers(name="answers")

    def check_options(self, given, settings):
        if "pair" in given and not settings["pair"]:
            raise ValueError("a next_sentence model reads pairs of texts. Received: pair=False")

    def exported_answers(self, labels, outputs):
        return NextSentenceAnswers()

    def signatures(self, pipeline):
        return {"next_sentence": answering(pipeline)}


PIPELINE = NextSentencePipeline()
