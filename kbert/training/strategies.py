"""The distribution strategy of this process, by its name: one device, mirrored, multi-worker or TPU."""

import functools
import os

from kbert.keras_compat import limit_waiting_for_workers, multiworker_strategy
from kbert.training.workers import (
    SILENCE_SECONDS,
    START_SECONDS,
    LostWorker,
    await_workers,
    check_tf_config,
    named_losses,
)


@functools.cache
def make_strategy(name: str):
    """The strategy of this process; later calls return the same one, as a TPU's second initialisation loses its models.

    Args:
        name: "one", "mirrored", "multiworker" or "tpu".
    """
    return {"one": _one, "mirrored": _mirrored, "multiworker": _multiworker, "tpu": _tpu}[name]()


def _one():
    import tensorflow as tf

    return tf.distribute.get_strategy()


def _mirrored():
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    return tf.distribute.MirroredStrategy(
        [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices("CPU")]
    )


def _multiworker():
    cluster, task = check_tf_config(os.environ.get("TF_CONFIG"))
    await_workers(cluster, task)
    limit_waiting_for_workers(cluster, START_SECONDS, SILENCE_SECONDS)
    try:
        with named_losses():
            return multiworker_strategy()
    except LostWorker:
        raise
    except RuntimeError as error:
        raise RuntimeError(
            "choose_hardware: the multi-worker strategy must be made before TensorFlow computes anything. "
            f"Call choose_hardware first. Received: {error}"
        ) from error


def _tpu():
    import tensorflow as tf

    name = os.environ.get("TPU_NAME") or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except Exception as error:  # any error of the resolver: no library, no device, no such name
        raise RuntimeError(
            f"choose_hardware: strategy tpu needs a TPU; tried TPUClusterResolver(tpu={name!r}) "
            f"({'from' if os.environ.get('TPU_NAME') else 'no'} TPU_NAME in the environment). TensorFlow reaches TPUs "
            "through the package tensorflow-tpu (2.20) instead of tensorflow. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
