"""Layers to keras.Model on batches."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BertClassifier": "classifier",
        "BertEncoder": "encoder",
        "BertModel": "bert_model",
        "BertMultipleChoice": "multiple_choice",
        "BertPretrainer": "pretrainer",
        "BertRegressor": "regressor",
        "BertSentenceEncoder": "sentence_encoder",
        "BertSpanExtractor": "span_extractor",
        "BertTagger": "tagger",
        "CompatibleModel": "bert_model",
        "average_models": "average",
        "grow_model": "grow",
    },
)
