"""Where the time of a forward pass goes: TensorFlow's operations by type."""

import collections
import pathlib
import statistics
import tempfile
import time

import tensorflow as tf
from experiments.cells import model_name

from benchmarks.encoding import encoder_inputs, forward_pass
from benchmarks.serving import LONG, SHORT, export_encoder, saved_model
from kbert.models.encoder import BertEncoder

_SHOWN = 12  # operations


def operations(settings):
    """The time in each type of operation: of encoding a batch or, with `settings.model`, of answering two texts.

    The texts are a short and a long one.

    Times are those of all threads, and an operation that calls others (a function, a loop) is not counted itself. With
    `frozen_weights` the weights are constants.

    Returns:
        dict of `milliseconds` for a call without the profiler (the median), `operations`: type → milliseconds and
        number in one call, the twelve longest, and the settings. With a model these are a short text's, and
        `long_text_milliseconds` and `long_text_operations` a long one's.
    """
    if settings.model is None:
        settings.hardware()
        model = BertEncoder(settings.config())
        call = forward_pass(model, encoder_inputs(settings), frozen_weights=settings.frozen_weights)
        found, about = _measure(call, settings.seconds), settings.of_model()
    else:
        with tempfile.TemporaryDirectory() as directory:
            path = export_encoder(settings, f"{directory}/model")
            answer = saved_model(path)
            found = _measure(lambda: answer([SHORT]), settings.seconds)
            long_text = _measure(lambda: answer([LONG]), settings.seconds)
        found |= {f"long_text_{name}": value for name, value in long_text.items()}
        about = {"model": model_name(settings.model), "precision": settings.precision}
    return found | about | {"frozen_weights": settings.frozen_weights}


def _measure(call, seconds):
    for _ in range(3):  # tracing and allocation
        call()
    times = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as directory:
        with tf.profiler.experimental.Profile(directory):
            for _ in times:
                call()
        return {"milliseconds": 1000 * statistics.median(times), "operations": _operations(directory, len(times))}


def _operations(directory, calls):
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    (path,) = pathlib.Path(directory).rglob("*.xplane.pb")
    space.ParseFromString(path.read_bytes())
    picoseconds, numbers = collections.Counter(), collections.Counter()
    for plane in (plane for plane in space.planes if "CPU" in plane.name):
        for event in (event for line in plane.lines for event in line.events):
            name, _, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")  # "layer/MatMul:MatMul"
            if name and not name.endswith(":") and kind.isidentifier() and not kind.startswith("__"):
                picoseconds[kind] += event.duration_ps
                numbers[kind] += 1
    return {
        kind: {"milliseconds": total / 1e9 / calls, "number": numbers[kind] / calls}
        for kind, total in picoseconds.most_common(_SHOWN)
    }
