"""A larger pre-training model that starts from what a smaller one has learned.

Shapes: H hidden, F intermediate, r the factor by which the width grows.
"""

import math
import re

import keras
import numpy as np

from kbert.checks import check_option
from kbert.config import BertConfig
from kbert.models.lora import merged
from kbert.models.pretrainer import BertPretrainer
from kbert.options import Natural


def grow_model(model: BertPretrainer, size: str | BertConfig, *, seed: int = 0) -> BertPretrainer:
    """A wider and deeper copy of a pre-training model, to continue from instead of new weights.

    Widening keeps the function: each unit is copied r times, and what is added to the weights by which the copies are
    read has a sum of 0. These additions are random, so that training makes the copies different. In depth, each block
    is followed by copies of itself whose residual branches start at 0, and whose layer normalisations almost return
    their input.

    Args:
        model: `kbert.BertPretrainer` with learned positions. It stays as it is. LoRA is merged into the copy.
        size: name of a size ("mini"), or `BertConfig` with the model's vocabulary, positions and kind. Its hidden size,
            heads, intermediate size and layers are multiples of the model's, the first three by one common factor.
        seed: of the random additions.

    Returns:
        `kbert.BertPretrainer` with the global dtype policy.

    Raises:
        TypeError: `model` is not a `BertPretrainer`.
        ValueError: sizes that are no such multiples, positions without weights, or configs that differ in anything
            else.

    Source: Chen, Goodfellow & Shlens 2016, "Net2Net: Accelerating learning via knowledge transfer"; Chen et al. 2022,
    "bert2BERT: Towards reusable pretrained language models".
    """
    if not isinstance(model, BertPretrainer):
        raise TypeError(f"grow_model: `model` must be a kbert.BertPretrainer. Received: {type(model).__name__}")
    config = _grown_config(model.config, size)
    grown = BertPretrainer(config, **model.own_values())
    factor = config.hidden_dim // model.config.hidden_dim
    repeats = config.num_layers // model.config.num_layers
    old = {weight.path: keras.ops.convert_to_numpy(weight) for weight in merged(model).weights}
    generator = np.random.default_rng(check_option("grow_model", "seed", seed, Natural))
    for weight in grown.weights:
        block = re.match(r"encoder_block_(\d+)/", weight.path)
        copied, is_copy = divmod(int(block[1]), repeats) if block else (None, False)
        source = re.sub(r"^encoder_block_\d+", f"encoder_block_{copied}", weight.path)
        value = _widened(old[source], weight.shape, config.initializer_stddev, generator)
        if is_copy and re.search(r"/output/(kernel|bias)$", source):
            value = np.zeros_like(value)
        elif is_copy and "layer_norm/" in source:
            value = np.full_like(value, _undoing(source, old))
        elif source.startswith("masked_lm_head/layer_norm/"):
            value = value / factor  # a logit is a sum over r times as many products with the output table
        weight.assign(value)
    return grown


def _undoing(path, old):
    """The scale or offset with which layer normalisation returns an output of the copied block.

    It does if all tokens have the same mean and variance. With the scales g and offsets b of that block, the expected
    mean over the units is mean(b), and the expected variance mean(g²) + var(b).
    """
    block = path.split("/")[0]
    gamma, beta = (old[f"{block}/feed_forward_layer_norm/{name}"] for name in ("gamma", "beta"))
    return np.sqrt(np.mean(gamma**2) + np.var(beta)) if path.endswith("gamma") else np.mean(beta)


def _grown_config(old, size):
    widths = ("hidden_dim", "num_heads", "intermediate_dim")
    before = old.to_dict()
    new = size
    if not isinstance(size, BertConfig):
        named = BertConfig.from_size(size).to_dict()
        stddev = old.initializer_stddev * math.sqrt(old.hidden_dim / named["hidden_dim"])  # sums over H vary as before
        sizes = {name: named[name] for name in (*widths, "num_layers")}
        new = BertConfig.from_dict(before | sizes | {"initializer_stddev": stddev})
    after = new.to_dict()
    for name in (*widths, "num_layers"):
        if after[name] % before[name]:
            raise ValueError(
                f"grow_model: `{name}` must be a multiple of the model's {before[name]}. Received: {after[name]}"
            )
    factors = {name: after[name] // before[name] for name in widths}
    if len(set(factors.values())) > 1:
        raise ValueError(f"grow_model: {widths} must grow by the same factor. Received: {factors}")
    if old.position_embedding != "learned":
        raise ValueError(
            'grow_model: `position_embedding` of the model must be "learned": no copies of sines and cosines are those '
            f"of a wider model. Received: {old.position_embedding!r}"
        )
    may_differ = {*widths, "num_layers", "hidden_dropout", "attention_dropout", "initializer_stddev"}
    others = [name for name, value in after.items() if value != before[name] and name not in may_differ]
    if others:
        raise ValueError(
            f"grow_model: the config must be the model's except for its sizes. Received others in: {others}"
        )
    return new


def _widened(value, shape, stddev, generator):
    """The weight of the wider model, of `shape`.

    Outputs are copied. Inputs, which come in copies, share their weight.
    """
    is_kernel = value.ndim == 2 and value.shape[0] != shape[0]
    value = np.tile(value, [1] * (value.ndim - 1) + [shape[-1] // value.shape[-1]])
    if not is_kernel:
        return value
    copies = shape[0] // value.shape[0]
    additions = generator.normal(0.0, stddev, (copies, *value.shape))
    return (value / copies + additions - additions.mean(axis=0)).reshape(shape)
