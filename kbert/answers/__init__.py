"""Logits to answers, in graph."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Answers": "answers",
        "ChoiceAnswers": "labels",
        "ClassificationAnswers": "labels",
        "EmbeddingAnswers": "embedding",
        "EntityAnswers": "words",
        "FillMaskAnswers": "pretraining",
        "MultiLabelAnswers": "labels",
        "NextSentenceAnswers": "pretraining",
        "RegressionAnswers": "labels",
        "SentenceEmbeddings": "embedding",
        "SpanAnswers": "spans",
        "TagAnswers": "words",
    },
)
