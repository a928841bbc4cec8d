"""What one process trains and measures under a strategy, as JSON in OUTPUT.

``python replicas_run.py one|mirrored|multiworker OUTPUT [classification|compiled]``: mirrored on two halves of the CPU,
multiworker as TF_CONFIG says; a pre-training, or a classification, or compiled: the pre-training with XLA, in
micro-batches too, and in half precision. A process of its own, as TensorFlow's devices are fixed once started.
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from helpers import tiny_pretraining as tiny
from helpers.curves_alone import curves_alone
from kbert.inspection import TensorBoard
from kbert.inspection.board.samples import layer_norms
from kbert.layers import activation
from kbert.models.classifier import BertClassifier
from kbert.optim import adamw, cross_entropy
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training.exact_resume import restore_checkpoint, save_checkpoint
from kbert.training.hardware import choose_hardware
from kbert.xla import is_worth_compiling

SMALL = {"num_layers": 1, "hidden_dropout": 0.0, "attention_dropout": 0.0}


def pretrain(hardware, output, **parts):
    """A run in two windows of another number of steps, with validation; then evaluation."""
    with hardware.scope():
        model = tiny.compiled_model(AdamW(WarmupLinearDecay(0.01, 3, 30)), hardware.jit_compile, **SMALL)
        if parts:
            model.compile(model.optimizer, **parts)
    batch = next(iter(tiny.make_dataset(300)))
    board = TensorBoard(os.path.join(output, "logs"), batch=batch)
    history = tiny.train(
        model,
        tiny.make_dataset,
        7,
        output,
        window=5,
        scoring=[tiny.held_out(model, tiny.make_dataset(300), 2)],
        callbacks=[board],
    )
    evaluation = model.evaluate(tiny.make_dataset(400).take(3), return_dict=True, verbose=0)
    norms = layer_norms(model, history[-1]["learning_rate"]) if history else None  # of the chief
    return {"history": history, "evaluation": evaluation, "weights": weights_of(model), "norms": norms}


def classify(hardware):
    """Whole epochs over 23 examples in batches of 6: the last batch has 5, so the replicas' shares are unequal."""
    inputs, _, _ = next(iter(tiny.make_dataset(900, batch_size=23)))
    inputs = {name: value.numpy() for name, value in inputs.items() if name != "mask_positions"}
    labels = inputs["token_ids"][:, 1] % 3
    with hardware.scope():
        keras.utils.set_random_seed(7)
        model = BertClassifier(tiny.config(**SMALL), num_labels=3)
        model.compile(AdamW(0.01, global_clipnorm=0.1), jit_compile=hardware.jit_compile)
    data = tf.data.Dataset.from_tensor_slices((inputs, {"logits": labels})).batch(6)
    history = model.fit(data, epochs=2, verbose=0).history
    evaluation = model.evaluate(data, return_dict=True, verbose=0)
    prediction = model.predict(data, verbose=0)["logits"]
    return {
        "history": history,
        "evaluation": evaluation,
        "weights": weights_of(model),
        "prediction": prediction.tolist(),
    }


def weights_of(model):
    return {str(i): value.tolist() for i, value in enumerate(model.get_weights())}


def half_precision(hardware):
    """Does a step under a loss scale move the weights, and is everything finite?"""
    with hardware.scope():
        keras.config.set_dtype_policy("mixed_float16")
        model = tiny.compiled_model(AdamW(0.01), hardware.jit_compile, **SMALL)
        keras.config.set_dtype_policy("float32")
    before = model.get_weights()
    history = model.fit(tiny.make_dataset(), steps_per_epoch=3, verbose=0).history
    moved = [float(np.max(np.abs(a - b))) for a, b in zip(before, model.get_weights(), strict=True)]
    return {"optimizer": type(model.optimizer).__name__, "loss": history["loss"][-1], "least_moved": min(moved)}


def replica_clipped(hardware):
    """One update with each replica clipped by itself: replica r of R has [3 + r, 4] / R of the gradient."""
    with hardware.scope():
        optimizer = AdamW(0.01, clip_scope="replica")
        variable = keras.Variable(np.zeros((2,), "float32"), name="kernel")
        optimizer.build([variable])

    @tf.function
    def step():
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        optimizer.apply([tf.stack([3.0 + replica, 4.0]) / hardware.replicas], [variable])

    hardware.strategy.run(step)
    return {"weight": variable.numpy().tolist(), "norm": float(optimizer.gradient_norm.numpy())}


def checkpoint_round_trip(hardware, output):
    """Random values saved under the strategy and restored into another model: the largest difference on any replica."""
    rng = np.random.default_rng(1)
    models = []
    for _ in range(2):
        with hardware.scope():
            models.append(tiny.compiled_model(AdamW(0.01), **SMALL))
            models[-1].optimizer.build(models[-1].trainable_variables)
    saved, restored = ([*model.variables, *model.optimizer.variables] for model in models)
    for variable in saved:
        variable.assign((100 * rng.uniform(size=variable.shape)).astype(variable.dtype))
    save_checkpoint(output, models[0], 3)
    step, _ = restore_checkpoint(output, models[1])
    worst = 0.0
    for one, other in zip(saved, restored, strict=True):
        for value in hardware.strategy.experimental_local_results(other.value):
            worst = max(worst, float(np.max(np.abs(one.numpy() - value.numpy()))))
    return {"step": step, "difference": worst}


def compile_everything():
    """Groups of operations are compiled by XLA that are not with sizes as small as here."""
    adamw._COMPILED_FROM = cross_entropy._COMPILED_FROM = cross_entropy._COMPILED_CLASSES = 1
    activation.is_worth_fusing = lambda x: is_worth_compiling(x, elements=1)


def main(strategy, output, part=""):
    name = "result.json"
    if strategy == "multiworker" or part == "compiled":  # compared with results that are not
        compile_everything()
    else:
        curves_alone()
    if strategy == "one":  # what the others are compared with: op by op takes less time than tracing
        tf.config.run_functions_eagerly(True)
    hardware = choose_hardware(strategy, logical_cpus=None if strategy == "multiworker" else 2)
    result = {"description": hardware.describe(), "replicas": hardware.replicas}
    if part == "classification":
        result["classification"] = classify(hardware)
    else:
        result["pretraining"] = pretrain(hardware, os.path.join(output, "pretraining"))
    if strategy == "multiworker":
        name = f"result-{json.loads(os.environ['TF_CONFIG'])['task']['index']}.json"
    elif part == "compiled":
        # In each replica three micro-batches, whose gradient XLA compiles.
        parts = {"micro_batches": 3, "jit_compile": True}
        result["pretraining_in_parts"] = pretrain(hardware, os.path.join(output, "parts"), **parts)
        result["half_precision"] = half_precision(hardware)
    elif not part:
        result["replica_clipped"] = replica_clipped(hardware)
        if strategy == "mirrored":
            result["checkpoint"] = checkpoint_round_trip(hardware, pathlib.Path(output, "checkpoint"))
    with open(os.path.join(output, name), "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
