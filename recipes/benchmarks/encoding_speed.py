"""How fast is the encoder's forward pass, beside keras-hub and transformers on torch?

    python recipes/benchmarks/encoding_speed.py --size mini --batch-size 32 --precision mixed_bfloat16 --peers

One batch of random tokens without padding, pooler included. Every system is measured in every setting that may be its
fastest: with and without XLA, with weights as constants (frozen) and, in bfloat16, with weights stored in bfloat16.
"""

import functools
import itertools

import keras
import numpy as np
import tensorflow as tf
from torch_peer import torch_encoding, torch_settings
from training_speed import hub_backbone, square_products, synthetic_batch
from turns import arguments, is_installed, report, take_turns, timed

from kbert.config import BertConfig
from kbert.models.encoder import BertEncoder
from kbert.serving.frozen_weights import FrozenWeights
from kbert.training.flops import inference_flops_per_token
from kbert.training.hardware import choose_hardware


def main(size, batch_size, sequence_length, precision, peers, rounds, seconds):
    config = BertConfig.from_size(size)
    sizes = config, batch_size, sequence_length
    systems = {"kbert": functools.partial(keras_encoding, *sizes, precision, "kbert", "", None)}
    libraries = ("kbert", *(("keras-hub",) if is_installed("keras_hub") else ())) if peers else ()
    stored = (None, "bfloat16") if precision == "mixed_bfloat16" else (None,)
    for library, way, dtype in itertools.product(libraries, ("", "XLA", "frozen"), stored):
        name = ", ".join(filter(None, [library, way, dtype and f"stored in {dtype}"]))
        systems.setdefault(name, functools.partial(keras_encoding, *sizes, precision, library, way, dtype))
    for setting in torch_settings(precision) if peers else ():
        systems[f"torch, {setting}"] = functools.partial(torch_encoding, *sizes, setting)
    found = take_turns(systems | {"peak": functools.partial(square_products, precision)}, rounds, seconds)
    peak = 1 / min(found.pop("peak").seconds)
    report(found, batch_size * sequence_length)
    flops = batch_size * sequence_length * inference_flops_per_token(config, sequence_length)
    best = min(np.median(one.seconds) for name, one in found.items() if name.startswith("kbert"))
    print(f"\nkbert at its best: {flops / best / peak:.0%} of the peak of square matrix products")


def keras_encoding(config, batch_size, sequence_length, precision, library, way, dtype):
    keras.config.set_dtype_policy(precision)
    choose_hardware("one", precision=precision)
    model = (BertEncoder if library == "kbert" else hub_backbone)(config, dtype=dtype)
    inputs = synthetic_batch(config, batch_size, sequence_length)[0]
    tensors = {name: tf.constant(inputs[name]) for name in ("token_ids", "segment_ids", "padding_mask")}

    def forward(x):
        return model(x, training=False)

    if way == "frozen":
        forward = FrozenWeights(model.weights).freeze(forward)
    compiled = tf.function(forward, jit_compile=way == "XLA")
    return timed(lambda: compiled(tensors)["sequence_output"].numpy())


if __name__ == "__main__":
    parser = arguments(__doc__, size="mini", batch_size=32, sequence_length=128, precision="float32")
    main(**vars(parser.parse_args()))
