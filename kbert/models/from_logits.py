"""Keras' losses and metrics, as `model.compile` takes them, for models whose outputs are logits."""

from typing import Any

import keras

_FROM_LOGITS = {  # functions that read probabilities by default, and their classes
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "binary_crossentropy": "BinaryCrossentropy",
    "categorical_focal_crossentropy": "CategoricalFocalCrossentropy",
    "binary_focal_crossentropy": "BinaryFocalCrossentropy",
}
_OF_PROBABILITIES = ("kl_divergence", "KLDivergence", "CategoricalGeneralizedCrossEntropy")
_UNNAMED = ("ce", "crossentropy")  # Keras would choose one of them by the shapes
_ACCURACY = ("acc", "accuracy")


def losses_from_logits(losses: Any) -> Any:
    """Losses given by name become those that read logits. A loss that would take logits for probabilities is an error.

    So every cross-entropy of Keras, such as ``"sparse_categorical_crossentropy"``, gets ``from_logits=True``. `losses`
    may be lists and dicts, as in `keras.Model.compile`.
    """
    return _each(losses, lambda loss: _from_logits(loss, keras.losses))


def metrics_from_logits(metrics: Any, outputs: Any) -> Any:
    """Metrics given by name become those that read logits, as in `losses_from_logits`.

    For "binary_accuracy", "accuracy" of single logits, and metrics with a threshold, such as "Recall", a logit above 0
    means "on". A metric with a threshold of probabilities is an error where outputs are logits.
    """
    has_logits = any(name.endswith("logits") for name in outputs)
    one_logit = all(len(x.shape) > 1 and x.shape[-1] == 1 for x in keras.tree.flatten(outputs))

    def resolve(metric):
        if metric is keras.metrics.binary_accuracy:
            metric = "binary_accuracy"
        if not isinstance(metric, str) or metric not in (*_ACCURACY, "binary_accuracy"):
            metric = _from_logits(metric, keras.metrics)
            return _with_threshold_0(metric) if has_logits else metric
        if metric in _ACCURACY and not one_logit:
            return metric  # Keras compares the largest output
        return keras.metrics.BinaryAccuracy(name=metric, threshold=0.0)

    return _each(metrics, resolve)


def _each(structure, function):
    if isinstance(structure, dict):
        return {name: _each(value, function) for name, value in structure.items()}
    if isinstance(structure, (list, tuple)):
        return [_each(value, function) for value in structure]
    return None if structure is None else function(structure)


def _from_logits(identifier, module):
    kind = module.__name__.rpartition(".")[2]  # losses, metrics
    if isinstance(identifier, str) and identifier in _UNNAMED:
        raise ValueError(f"compile: expected one of {list(_FROM_LOGITS)} among the {kind}. Received: {identifier!r}")
    function = module.get(identifier)  # or an object
    name = getattr(function, "__name__", type(function).__name__)
    if not getattr(function, "__module__", "").startswith("keras."):
        return identifier  # defined by the user
    if name in _OF_PROBABILITIES:
        raise ValueError(
            f"compile: {name} compares probabilities, and the model's outputs are logits. Compute it of their softmax."
        )
    if name in _FROM_LOGITS:
        return getattr(module, _FROM_LOGITS[name])(from_logits=True, name=name)
    config = function.get_config() if hasattr(function, "get_config") else {}
    if config.get("from_logits", True):
        return identifier
    if isinstance(identifier, str):
        return type(function).from_config(config | {"from_logits": True})
    raise ValueError(
        f"compile: the model's outputs are logits, which {name}(from_logits=False) would take for probabilities. "
        f"Expected keras.{kind}.{name}(from_logits=True), its name as a string, or kbert's own (kbert.optim.{kind})."
    )


def _with_threshold_0(metric):
    """The metric; given by name, with its threshold at the logit 0, which is the probability 0.5."""
    function = keras.metrics.get(metric)
    config = function.get_config() if isinstance(function, keras.metrics.Metric) else {}
    if not function.__module__.startswith("keras.") or config.get("from_logits") or not _has_probability(config):
        return metric
    key = "threshold" if "threshold" in config else "thresholds"
    if isinstance(metric, str):
        return type(function).from_config(config | {key: 0.0, "name": metric})
    name = type(function).__name__
    takes_0 = "thresholds" in config or name.startswith("Binary")
    raise ValueError(
        f"compile: the model's outputs are logits, which {name} would compare with probabilities. Expected "
        + (f"{key}=0, the logit of the probability 0.5. " if takes_0 else "it computed of the probabilities. ")
        + f"Received: {config.get(key)}"
    )


def _has_probability(config):
    """Whether the config of a metric has thresholds that are probabilities, Keras' default among them."""
    if "num_thresholds" in config:
        return True
    if config.get("thresholds", 0) is None:
        return config.get("top_k") is None
    thresholds = keras.tree.flatten(config.get("thresholds", config.get("threshold")))
    return any(threshold is not None and 0 < threshold <= 1 for threshold in thresholds)
