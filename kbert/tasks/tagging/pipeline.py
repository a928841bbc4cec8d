"""Tagging: texts → words with their tags, or entities."""

from kbert.answers.entities import EntityAnswers
from kbert.answers.tags import TagAnswers
from kbert.models.tagger import BertTagger
from kbert.pipelines.task_pipeline import TaskPipeline
from kbert.pipelines.task_signature import answering
from kbert.preprocessing.tagging_preprocessor import TaggingPreprocessor

_OUTPUTS = {"tags": TagAnswers, "entities": EntityAnswers}


class TaggingPipeline(TaskPipeline):
    """``words`` and ``tags`` of a text, or its ``entities``; a served model offers both."""

    task = "tagging"
    model_class = BertTagger
    options = ("labels", "doc_stride", "tagging_output")
    heads = ("tagger_head",)
    prediction_options = {"tagging_output": "entities"}

    def parts(self, model, tokenizer, settings):
        # Windows overlap by at least half: the stride for questions, which is stored by default, would give no overlap.
        stride = min(settings["doc_stride"], max(1, (settings["sequence_length"] - 2) // 2))
        preprocessor = TaggingPreprocessor(tokenizer, settings["sequence_length"], stride, name="preprocessor")
        return preprocessor, _OUTPUTS[settings["tagging_output"]](self.labels(model, settings), name="answers")

    def exported_answers(self, labels, outputs):
        return EntityAnswers(labels) if "entities" in outputs else TagAnswers(labels)

    def signatures(self, pipeline):
        own = pipeline.answers
        answers = {kind: own if isinstance(own, kind) else kind(list(own.labels)) for kind in _OUTPUTS.values()}
        return {
            "tag": answering(pipeline, answers[TagAnswers]),
            "entities": answering(pipeline, answers[EntityAnswers]),
        }


PIPELINE = TaggingPipeline()
