"""Forward passes: their speed, and where the time goes, by type of operation."""

import collections
import functools
import pathlib
import statistics
import tempfile
import time

import tensorflow as tf
from experiments.cells import model_name

from benchmarks.peak import model_products, race_at_peak
from benchmarks.peers import fastest_peers, fastest_setting, hub_backbone, timed, with_and_without_xla
from benchmarks.serving import LONG, SHORT, export_encoder, saved_model
from benchmarks.settings import batches
from kbert.models.encoder import BertEncoder
from kbert.serving.frozen_weights import FrozenWeights
from kbert.training.flops import inference_flops_per_token


def encode(settings):
    """The encoder's forward pass on one batch, pooler included.

    Returns:
        dict of tokens per second, GFLOP/s, its fraction of the peak and of the model's own products (`PeakFractions`),
        and the settings; with `settings.peers` the peers' speeds too.
    """
    config = settings.config()
    hardware = settings.hardware()
    inputs = encoder_inputs(settings)
    tokens = inputs["padding_mask"].size, int(inputs["padding_mask"].sum())  # nominal, real

    def runners(build):
        """With and without XLA and with weights as constants; in bfloat16, weights stored in float32 or in bfloat16."""
        found = {}
        for dtype in (None, "bfloat16") if settings.precision == "mixed_bfloat16" else (None,):
            model = build(config, dtype=dtype)
            stored = f", weights in {dtype}" if dtype else ""
            ways = with_and_without_xla(lambda jit, model=model: _forward(model, inputs, jit, tokens))
            ways["XLA off, frozen weights"] = _forward(model, inputs, False, tokens, frozen_weights=True)
            found |= {setting + stored: run for setting, run in ways.items()}
        return found

    def torch_runner(peer):
        return lambda seconds: [(tokens[0] / t, tokens[1] / t) for t in peer.seconds(seconds=seconds)]

    flops = inference_flops_per_token(config, settings.sequence_length)
    products = model_products(config, settings.batch_size, settings.sequence_length)
    hub = "keras_hub.BertBackbone", functools.partial(runners, hub_backbone)
    with fastest_peers("encode", settings, config, *hub, torch_runner) as (peers, chosen):
        if settings.peers and settings.xla == "auto":  # as for keras-hub
            ways = runners(BertEncoder)
            chosen = {"kbert": fastest_setting("kbert", ways, settings.seconds)} | chosen
            kbert = ways[chosen["kbert"]]
        else:
            kbert = _forward(BertEncoder(config), inputs, hardware.jit_compile, tokens)
        result = race_at_peak({"kbert": kbert} | peers, settings, products, flops)
    return result | {"peer_settings": chosen}


def encoder_inputs(settings) -> dict:
    """One batch of NumPy arrays: token_ids, segment_ids, padding_mask [B, S]."""
    inputs = next(batches(settings, settings.config()).as_numpy_iterator())[0]
    return {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}


def forward_pass(model, inputs, jit_compile=False, frozen_weights=False):
    """A function that encodes the batch and waits for the result; frozen weights are constants of its graph."""

    def forward(x):
        return model(x, training=False)

    forward = FrozenWeights(model.weights).freeze(forward) if frozen_weights else forward
    compiled = tf.function(forward, jit_compile=bool(jit_compile))
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return lambda: compiled(tensors)["sequence_output"].numpy()


def _forward(model, inputs, jit_compile, tokens, frozen_weights=False):
    call = forward_pass(model, inputs, jit_compile, frozen_weights)

    def work():
        call()
        return tokens

    return timed(work)


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
        found = _measure(call, settings.seconds)
        about = settings.of_model()
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
    picoseconds = collections.Counter()
    numbers = collections.Counter()
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
