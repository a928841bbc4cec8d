"""Logits to answers, in graph."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Answers": "answers",
        "ChoiceAnswers": "choice",
        "ClassificationAnswers": "classification",
        "EmbeddingAnswers": "embedding",
        "EntityAnswers": "entities",
        "FillMaskAnswers": "fill_mask",
        "MultiLabelAnswers": "multi_label",
        "NextSentenceAnswers": "next_sentence",
        "RegressionAnswers": "regression",
        "SentenceEmbeddings": "embedding",
        "SpanAnswers": "spans",
        "TagAnswers": "tags",
    },
)
