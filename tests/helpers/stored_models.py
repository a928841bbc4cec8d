"""Models of every task, ready to be written and read back."""

import functools

import numpy as np

import kbert
from helpers.model_settings import settings_of
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer
from kbert.models import BertSentenceEncoder

KERASHUB_HEAD = {"head_activation": "gelu_erf", "head_layer_norm_epsilon": 1e-5}
MODELS = {
    "encoder": lambda c: kbert.BertEncoder(c),
    "encoder without pooler": lambda c: kbert.BertEncoder(c, pooler=False),
    "pretraining": lambda c: kbert.BertPretrainer(c),
    "pretraining, untied": lambda c: kbert.BertPretrainer(c, tied=False),
    "masked_lm": lambda c: kbert.BertPretrainer(c, next_sentence=False),
    "masked_lm, untied": lambda c: kbert.BertPretrainer(c, next_sentence=False, tied=False),
    "masked_lm with pooler": lambda c: kbert.BertPretrainer(kbert.BertEncoder(c), next_sentence=False),
    "masked_lm as KerasHub's": lambda c: kbert.BertPretrainer(
        kbert.BertEncoder(c), next_sentence=False, **KERASHUB_HEAD
    ),
    "next_sentence": lambda c: kbert.BertPretrainer(c, masked_lm=False),
    "classification": lambda c: kbert.BertClassifier(c, num_labels=3, dropout=0.2),
    "regression": lambda c: kbert.BertRegressor(c),
    "span": lambda c: kbert.BertSpanExtractor(c),
    "span with pooler": lambda c: kbert.BertSpanExtractor(kbert.BertEncoder(c)),
    "tagging": lambda c: kbert.BertTagger(c, num_labels=5),
    "multiple_choice": lambda c: kbert.BertMultipleChoice(c),
    "similarity": lambda c: BertSentenceEncoder(c, pooling="cls"),
}


@functools.cache
def make_model(name, scale=0.3, **fields):
    """A model with random weights, biases and LayerNorms included; the same one each time, so leave it as it is."""
    return randomise(MODELS[name](tiny_config(**fields)), scale=scale)


def save(model, directory, format, **arguments):
    """Saves with the tiny tokenizer and settings that are not the defaults."""
    labels = [f"label {i}" for i in range(model.num_labels)] if model.num_labels else None
    settings = settings_of(model.task, 17, pair=True, labels=labels)
    kbert.save_pretrained(model, directory, format=format, tokenizer=tiny_tokenizer(), settings=settings, **arguments)


def load(path, **arguments):
    """`kbert.load_pretrained`, in a word."""
    return kbert.load_pretrained(path, **arguments)


def weights(model):
    return {variable.path: variable.numpy() for variable in model.weights}


def assert_same_weights(one, other):
    """Bit for bit."""
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys()
    for path, value in one.items():
        assert value.dtype == other[path].dtype == np.float32
        np.testing.assert_array_equal(value, other[path], err_msg=path)


def assert_same_model(loaded, model):
    """The same class, config, arguments, weights and settings."""
    assert type(loaded) is type(model) and loaded.task == model.task and loaded.config == model.config
    assert (loaded.encoder.pooler is None) == (model.encoder.pooler is None)
    for name in ("tied", "num_labels", "dropout", "head_activation", "head_layer_norm_epsilon"):
        assert getattr(loaded, name, None) == getattr(model, name, None), name
    assert_same_weights(loaded, model)
    report = loaded.pretrained.report
    assert not report.newly_initialised and not report.unused and len(report.rows) == len(model.weights)
    assert loaded.pretrained.tokenizer.settings() == tiny_tokenizer().settings()
    assert loaded.pretrained.tokenizer.vocabulary == tiny_tokenizer().vocabulary
    settings = loaded.pretrained.settings
    assert (settings.task.name, settings.sequence_length) == (model.task, 17)
    if model.num_labels:
        assert settings.task.labels == tuple(f"label {i}" for i in range(model.num_labels))
