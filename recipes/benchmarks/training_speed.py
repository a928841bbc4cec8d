"""How fast is a pre-training step, beside keras-hub and transformers on torch?

    python recipes/benchmarks/training_speed.py --size mini --batch-size 32 --precision mixed_bfloat16 --peers
    KERAS_BACKEND=jax python recipes/benchmarks/training_speed.py --size base --batch-size 256

A step is forward, backward, clipping and the optimizer on random tokens without padding, of which 20 in a row are
predicted. Torch is measured as published, with its head on all positions, and with the head on the predicted ones.
Every system is measured in every setting that may be its fastest. On JAX no TensorFlow is needed.
"""

import functools
import time

import keras
import numpy as np
from torch_peer import torch_settings, torch_training
from turns import arguments, is_installed, report, take_turns

from kbert.config import BertConfig
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training.dry_run import repeated_batch
from kbert.training.flops import device_name, nominal_peak, training_flops_per_token
from kbert.training.hardware import choose_hardware

STEPS, UNCOUNTED = 10, 3  # of a call of `fit`, whose first steps take up to twice as long
PREDICTIONS = 20  # of a row


def main(size, batch_size, sequence_length, precision, dropout, peers, rounds, seconds):
    config = BertConfig.from_size(size, hidden_dropout=dropout, attention_dropout=dropout)
    sizes = config, batch_size, sequence_length
    systems = {"kbert": functools.partial(kbert_steps, *sizes, precision)}
    if peers and is_installed("keras_hub"):
        for xla in (False, True):
            name = f"keras-hub, XLA {'on' if xla else 'off'}"
            systems[name] = functools.partial(hub_steps, *sizes, precision, xla)
    for setting in torch_settings(precision) if peers else ():
        for kind in ("as published", "equal work"):
            on_all = kind == "as published"
            step = functools.partial(torch_training, *sizes, PREDICTIONS, setting, on_all)
            systems[f"torch {kind}, {setting}"] = step
    found = take_turns(systems | {"peak": functools.partial(square_products, precision)}, rounds, seconds)
    peak = 1 / min(found.pop("peak").seconds)
    tokens = batch_size * sequence_length
    report(found, tokens)
    speed = tokens * training_flops_per_token(config, sequence_length, PREDICTIONS) / np.median(found["kbert"].seconds)
    print(f"\nkbert: {speed / 1e9:,.0f} GFLOP/s, {speed / peak:.0%} of the peak of square matrix products")
    if nominal := nominal_peak(device_name(), precision):
        print(f"model FLOPs utilization: {speed / nominal:.1%} of the {device_name()}'s nominal peak")


def synthetic_batch(config, batch_size, sequence_length, predictions=PREDICTIONS):
    """Random token ids without padding, every prediction slot used: inputs, labels, weights."""
    rng = np.random.default_rng(0)
    shape, slots = (batch_size, sequence_length), (batch_size, predictions)
    places = rng.permuted(np.tile(np.arange(sequence_length), (batch_size, 1)), axis=1)[:, :predictions]
    inputs = {
        "token_ids": rng.integers(0, config.vocabulary_size, shape).astype("int32"),
        "segment_ids": np.broadcast_to(np.arange(sequence_length) >= sequence_length // 2, shape).astype("int32"),
        "padding_mask": np.ones(shape, bool),
        "mask_positions": np.sort(places, axis=1).astype("int32"),
    }
    labels = {
        "mlm_logits": rng.integers(0, config.vocabulary_size, slots).astype("int32"),
        "nsp_logits": rng.integers(0, 2, batch_size).astype("int32"),
    }
    return inputs, labels, {"mlm_logits": np.ones(slots, "float32"), "nsp_logits": np.ones(batch_size, "float32")}


def kbert_steps(config, batch_size, sequence_length, precision):
    keras.config.set_dtype_policy(precision)
    hardware = choose_hardware("one", precision=precision)
    model = BertPretrainer(config)
    model.compile(AdamW(WarmupLinearDecay(1e-4, 10_000, 1_000_000)), jit_compile=hardware.jit_compile)
    return timed_fit(model, repeated_batch(synthetic_batch(config, batch_size, sequence_length), STEPS + UNCOUNTED))


def hub_steps(config, batch_size, sequence_length, precision, xla):
    import keras_hub

    keras.config.set_dtype_policy(precision)
    model = keras_hub.models.BertMaskedLM(backbone=hub_backbone(config))
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
        jit_compile=xla,
    )
    inputs, labels, weights = synthetic_batch(config, batch_size, sequence_length)
    batch = inputs, labels["mlm_logits"], weights["mlm_logits"]
    return timed_fit(model, repeated_batch(batch, STEPS + UNCOUNTED))


def hub_backbone(config, dtype=None):
    """The encoder of keras-hub for a `BertConfig`."""
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.intermediate_dim,
        dropout=config.hidden_dropout,
        dtype=dtype,
    )


class _Clock(keras.callbacks.Callback):
    """The time at the end of the last uncounted step, and of the last one: JAX returns before a step is done."""

    def on_train_begin(self, logs=None):
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 in (UNCOUNTED, STEPS + UNCOUNTED):
            float(logs["loss"])  # waits
            self.times.append((time.perf_counter(), time.process_time()))


def timed_fit(model, data):
    """The work of a system that trains: the mean step of a call of `fit`."""
    clock = _Clock()

    def work():
        model.fit(data, shuffle=False, verbose=0, callbacks=[clock])
        (wall, processor), (wall_end, processor_end) = clock.times
        return [((wall_end - wall) / STEPS, (processor_end - processor) / STEPS)]

    return work


def square_products(precision):
    """The work of matrix products at this machine's peak: seconds for one operation."""
    return lambda: [(1 / matmul_peak(precision, seconds=0.5), 0.0)]


def matmul_peak(precision: str = "float32", size: int | None = None, seconds: float = 2.0) -> float:
    """The peak speed of products of square matrices in this process, in FLOP/s.

    The `size` is by default 1024 and 2048, on an accelerator 8192. A mixed Keras policy as `precision` means its
    compute dtype.
    """
    if size:
        sizes = (size,)
    else:
        sizes = (1024, 2048) if device_name() == "CPU" else (8192,)
    return max(_product_speed(n, precision.removeprefix("mixed_"), seconds / len(sizes)) for n in sizes)


def _product_speed(size: int, dtype: str, seconds: float) -> float:
    """The speed of a matrix product: the best of repeated ones, which other programs disturb least."""
    multiply = (_jax_product if keras.backend.backend() == "jax" else _tensorflow_product)((size, size), dtype)
    multiply()
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        multiply()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def _tensorflow_product(shape, dtype):
    import tensorflow as tf

    a, b = (tf.cast(tf.random.stateless_normal(shape, (0, n)), dtype) for n in range(2))

    @tf.function
    def product():
        return tf.matmul(a, b)[:1, :1]  # one element makes the host wait for the result without copying it

    return lambda: product().numpy()


def _jax_product(shape, dtype):
    import jax

    a, b = (jax.random.normal(jax.random.key(n), shape, dtype) for n in range(2))
    product = jax.jit(lambda a, b: a @ b)
    return lambda: product(a, b).block_until_ready()


if __name__ == "__main__":
    parser = arguments(__doc__, size="mini", batch_size=32, sequence_length=128, precision="float32", dropout=0.1)
    main(**vars(parser.parse_args()))
