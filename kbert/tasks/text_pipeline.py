"""The common base of classification and regression: one answer for a text, a pair of texts, or a long document."""

from kbert.pipelines.task_pipeline import TaskPipeline
from kbert.preprocessing.document_preprocessor import DocumentPreprocessor
from kbert.preprocessing.text_preprocessor import TextPreprocessor


class TextPipeline(TaskPipeline):
    """A task on texts or pairs; long texts are truncated, or divided into windows whose answers are pooled."""

    def preprocessor(self, tokenizer, settings):
        """The preprocessor of these settings."""
        length = settings["sequence_length"]
        if settings["window_pooling"] is None:
            return TextPreprocessor(tokenizer, length, settings["pair"], name="preprocessor")
        return DocumentPreprocessor(tokenizer, length, settings["doc_stride"], name="preprocessor")

    def check_options(self, given, settings):
        if "doc_stride" in given and settings["window_pooling"] is None:
            raise ValueError(
                "`doc_stride` goes with `window_pooling`, without which texts are truncated. "
                f"Received: doc_stride={settings['doc_stride']}, window_pooling=None"
            )
        if settings["pair"] and settings["window_pooling"] is not None:
            raise ValueError("`window_pooling` is for single texts. Received: pair=True")
