"""Every argument of every public class of layers, optim and models is used or refused: none is swallowed."""

import importlib
import inspect
import json
import pkgutil

import keras
import pytest
from helpers.batches import config

import kbert
from kbert.layers.embedding_block import TokenEmbedding
from kbert.layers.layer_norm import LayerNorm
from kbert.models.encoder import BertEncoder
from kbert.optim.losses import ClassificationLoss, RegressionLoss
from kbert.optim.schedule import WarmupLinearDecay

BASES = (
    keras.layers.Layer,
    keras.losses.Loss,
    keras.metrics.Metric,
    keras.optimizers.Optimizer,
    keras.optimizers.schedules.LearningRateSchedule,
)


def public_classes():
    for room in ("layers", "optim", "models"):
        package = importlib.import_module(f"kbert.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"kbert.{room}."):
            for name, found in vars(importlib.import_module(module.name)).items():
                is_own = inspect.isclass(found) and found.__module__ == module.name
                if (
                    is_own
                    and not name.startswith("_")
                    and name not in ("BertModel", "WeightedMean", "WeightedMeanLoss", "LoraDense")  # the last: Keras'
                    and name != "WholeBatch"  # values that the losses are given for a while
                ):
                    yield found


CLASSES = sorted(public_classes(), key=lambda c: c.__name__)
SIZES = {
    "vocabulary_size": 7,
    "hidden_dim": 12,
    "max_sequence_length": 8,
    "num_heads": 3,
    "intermediate_dim": 20,
    "units": 3,
    "rate": 0.5,
    "num_labels": 3,
    "learning_rate": 0.01,
    "peak": 0.01,
    "warmup_steps": 2,
    "total_steps": 9,
    "schedule": WarmupLinearDecay(0.01, 2, 9),
    "batches": 2,
    "config": config(num_layers=1),
    "encoder": config(num_layers=1),
    "loss": ClassificationLoss(),
}
OTHER = {  # another value for each argument; those of the same name mean the same
    "vocabulary_size": 8,
    "hidden_dim": 24,
    "max_sequence_length": 9,
    "num_heads": 4,
    "intermediate_dim": 21,
    "units": 4,
    "rate": 0.25,
    "num_labels": 4,
    "learning_rate": 0.02,
    "peak": 0.02,
    "warmup_steps": 3,
    "total_steps": 10,
    "schedule": WarmupLinearDecay(0.02, 2, 9),
    "batches": 3,
    "config": config(num_layers=2),
    "encoder": config(num_layers=2),
    "loss": RegressionLoss(),
    "num_segments": 3,
    "dropout": 0.3,
    "seed": 5,
    "layer_norm_epsilon": 1e-5,
    "initializer_stddev": 0.5,
    "activation": "relu",
    "hidden_dropout": 0.3,
    "attention_dropout": 0.3,
    "causal": True,
    "position_embedding": "sinusoidal",
    "pooled_token": "last",
    "positions": "sinusoidal",
    "token": "last",
    "num_parts": 3,
    "pooling": "max",
    "loss_name": "cosine",
    "dimensions": (2,),
    "epsilon": 1e-3,
    "outputs": ("pooled_output",),
    "pooler": False,
    "next_sentence": False,
    "masked_lm": False,
    "tied": False,
    "head_activation": "relu",
    "head_layer_norm_epsilon": 1e-3,
    "token_embedding": TokenEmbedding(7, 12),
    "name": "another",
    "dtype": "bfloat16",
    "trainable": False,
    "multi_label": True,
}


def required(found):
    parameters = list(inspect.signature(found.__init__).parameters.values())[1:]
    needed = {p.name: SIZES[p.name] for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    if found.__name__ == "MaskedLMHead":
        needed["vocabulary_size"] = 7
    return needed


def named(found):
    parameters = list(inspect.signature(found.__init__).parameters.values())[1:]
    takes_more = any(p.kind is p.VAR_KEYWORD for p in parameters)
    of_keras = ("activity_regularizer", "autocast")  # of a layer without a constructor of its own
    own = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in of_keras]
    more = ("name", "dtype", "trainable") if takes_more and issubclass(found, keras.layers.Layer) else ()
    return [*own, *(name for name in more if name not in own)]


def config_of(part):
    """What the class says of itself, as JSON."""
    settings = {k: keras.saving.serialize_keras_object(v) for k, v in part.get_config().items()}
    return json.dumps(settings, sort_keys=True, default=str)


def test_all_kinds_are_there():
    assert {base for base in BASES if any(issubclass(c, base) for c in CLASSES)} == set(BASES)
    assert len(CLASSES) > 30


@pytest.mark.parametrize("found", CLASSES, ids=lambda c: c.__name__)
def test_each_argument_counts(found):
    needed, name = required(found), {"name": "one"} if "name" in named(found) else {}
    one = found(**needed, **name)
    plain = config_of(one)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(one))
    assert type(again) is found and config_of(again) == plain
    for argument in named(found):
        value = OTHER[argument] if argument in OTHER else other_value(found, argument)
        try:
            made = found(**needed | name | {argument: value})
        except (ValueError, TypeError):
            assert argument not in needed or argument in ("num_heads",), argument
            continue
        assert config_of(made) != plain, f"{found.__name__}({argument}={value!r}) changes nothing"


def other_value(found, argument):
    default = inspect.signature(found.__init__).parameters[argument].default
    if isinstance(default, bool):
        return not default
    if isinstance(default, (int, float)):
        return default / 2 if default else 0.5
    return {"exclude_from_decay": ["gamma"], "clip_scope": "replica", "layer_decay": 0.5}[argument]


@pytest.mark.parametrize("found", CLASSES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("unknown", ["reduction", "axis", "ignore_class", "foo"])
def test_what_is_not_taken_is_an_error(found, unknown):
    with pytest.raises((ValueError, TypeError), match=unknown):
        found(**required(found), **{unknown: 1})


@pytest.mark.parametrize("argument", ["axis", "scale", "center", "gamma_initializer", "rms_scaling", "beta_constraint"])
def test_layer_norm_takes_what_it_does(argument):
    with pytest.raises(ValueError, match=rf"LayerNorm: expected epsilon.*Received: \['{argument}'\]"):
        LayerNorm(**{argument: None})
    layer = LayerNorm(1e-5, name="norm", trainable=False)
    assert LayerNorm.from_config(layer.get_config()).get_config() == layer.get_config()


def test_the_encoder_is_the_class_that_kbert_names():
    assert BertEncoder is kbert.BertEncoder and WarmupLinearDecay in CLASSES
