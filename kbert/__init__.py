"""kbert: BERT (Devlin et al. 2018) as a Keras 3 application.

The public names below are resolved on first use, so that ``import kbert`` costs nothing and the model side
(config, layers, optim, models) never pulls in TensorFlow.
"""

import importlib

_PUBLIC = {  # name -> module that defines it
    "AdamW": "kbert.optim.adamw",
    "BertClassifier": "kbert.models.classifier",
    "BertConfig": "kbert.config",
    "BertEncoder": "kbert.models.encoder",
    "BertMultipleChoice": "kbert.models.multiple_choice",
    "BertPretrainer": "kbert.models.pretrainer",
    "BertRegressor": "kbert.models.regressor",
    "BertSpanExtractor": "kbert.models.span_extractor",
    "BertTagger": "kbert.models.tagger",
    "BertTokenizer": "kbert.text.tokenizer",
    "Pipeline": "kbert.pipelines.pipeline",
    "audit": "kbert.serving.audit",
    "build_pipeline": "kbert.pipelines.build",
    "export": "kbert.serving.export",
    "load_pretrained": "kbert.weights.load",
    "pretrain": "kbert.tasks.pretraining.pretrain",
    "save_pretrained": "kbert.weights.save",
}

__all__ = sorted(_PUBLIC)
__version__ = "0.1.0"


def __getattr__(name):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'kbert' has no attribute {name!r}. Public names: {__all__}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(list(globals()) + __all__)
