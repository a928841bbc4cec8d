"""Questions and contexts → answers that are spans of the contexts."""

from kbert.answers.spans import SpanAnswers
from kbert.models.span_extractor import BertSpanExtractor
from kbert.pipelines.example_rows import LONG_TEXT, SENTENCE
from kbert.pipelines.task_pipeline import TaskPipeline
from kbert.pipelines.task_signature import answering
from kbert.preprocessing.span_preprocessor import SpanPreprocessor
from kbert.tasks.span.readers import read_squad


class SpanPipeline(TaskPipeline):
    """``answer`` to a question, its position in the context, and the n-best list."""

    task = "span"
    model_class = BertSpanExtractor
    options = ("doc_stride", "max_query_length", "n_best", "max_answer_length", "null_threshold")
    default_length = 384  # as run_squad.py; windows no longer than the step between them would not overlap
    heads = ("span_head",)

    def parts(self, model, tokenizer, settings):
        lengths = settings["sequence_length"], settings["doc_stride"], settings["max_query_length"]
        limits = settings["n_best"], settings["max_answer_length"], settings["null_threshold"]
        return SpanPreprocessor(tokenizer, *lengths, name="preprocessor"), SpanAnswers(*limits, name="answers")

    def exported_answers(self, labels, outputs):
        return SpanAnswers()

    def signatures(self, pipeline):
        return {"answer": answering(pipeline)}

    def example_rows(self, names):
        return [
            {"question": "Where did the committee meet?", "context": SENTENCE},
            {"question": "Who spoke about engines that compute?", "context": LONG_TEXT * 4},
        ]

    def read_columns(self, path, columns):
        """The questions of a file of SQuAD's format, with their ids; None for other files."""
        if path.suffix.lower() != ".json":
            return None
        asked = read_squad(path, labelled=False)
        return {"id": asked.ids, columns["question"]: asked.questions, columns["context"]: asked.contexts}


PIPELINE = SpanPipeline()
