"""An exported model that answers strings, compared with transformers on torch.

For both, requests are strings and answers one vector per text, tokenisation included. The systems take turns of some
seconds, each with its default number of threads; transformers runs in a process for each of its settings.
"""

import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time

from experiments.cells import model_name

from benchmarks.peers import TorchPeer, torch_settings
from kbert.serving.export import export
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained
from kbert.weights.source import resolve_source

_LOGGER = logging.getLogger("kbert")

SHORT = "A man is playing a guitar on the street."
_SENTENCES = (
    "The committee met on Tuesday in Geneva.",
    "Ada Lovelace wrote about engines that compute, and about much else that nobody had built yet.",
    "It rained.",
    "Nobody had asked the engineers, who would have said that the bridge could not carry a train of that weight.",
)
LONG = " ".join(_SENTENCES * 4)  # about 200 words


def mixed_texts(rows):
    """Texts of 2 to about 110 words, most of them short, like requests to a server."""
    lengths = [2, 6, 9, 12, 7, 18, 4, 25, 10, 14, 40, 5, 8, 110, 16, 30]
    words = LONG.split()
    return [" ".join(words[i % 20 : i % 20 + lengths[i % len(lengths)]]) for i in range(rows)]


def serve(settings):
    """Exports an encoder and measures the SavedModel and, with `peers`, transformers with the same weights.

    Returns:
        dict of milliseconds, texts per second, seconds to load, bytes on disk and MiB of memory.
    """
    if not settings.model:
        raise ValueError("serve: expected `model`, such as all-MiniLM-L6-v2. Received: none")
    with tempfile.TemporaryDirectory() as directory:
        path = export_encoder(settings, f"{directory}/model")
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        load_seconds, memory = _load_alone(path)
        systems = {"kbert": saved_model(path)}
        names = torch_settings(settings.precision) if settings.peers else []
        job = {"model": str(resolve_source(settings.model)), "sequence_length": settings.sequence_length}
        peers = {name: TorchPeer("serve", name, **job) for name in names}
        try:
            systems |= {name: peer.answer for name, peer in peers.items()}
            if peers:
                _check_equal(systems, settings.precision)
            timings = _take_turns(systems, settings)
        finally:
            for peer in peers.values():
                peer.close()
    result = {
        **timings["kbert"],
        "load_seconds": load_seconds,
        "bytes_on_disk": size,
        "server_memory_mib": memory,
        "batch_size": settings.batch_size,
        "precision": settings.precision,
        "frozen_weights": settings.frozen_weights,
        "model": model_name(settings.model),
    }
    if peers:
        result["transformers"] = {name: timings[name] for name in peers}
        result["ratios"] = _ratios(timings)
    return result


def export_encoder(settings, directory):
    """Exports the encoder of the settings; returns the path of the SavedModel."""
    pipeline = build_pipeline(load_pretrained(settings.model, task="encoder"), pair=False)
    precision = settings.precision.removeprefix("mixed_")
    return export(pipeline, directory, precision=precision, frozen_weights=settings.frozen_weights)


def saved_model(path):
    """A function of texts that the SavedModel answers → (seconds, vectors)."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  a server links these ops

    loaded = tf.saved_model.load(str(path))
    function = loaded.signatures["serving_default"]

    def answer(texts):
        start = time.perf_counter()
        vectors = function(text=tf.constant(texts))["embedding"].numpy()
        return time.perf_counter() - start, vectors

    answer.loaded = loaded  # its variables are deleted with it
    answer([SHORT])  # as the first of a server's warm-up requests: frozen weights are packed for it
    return answer


def _check_equal(systems, precision="float32"):
    import numpy as np

    texts = [SHORT, *mixed_texts(4)]
    vectors = [np.array(answer(texts)[1]) for answer in systems.values()]
    vectors = [vector / np.linalg.norm(vector, axis=1, keepdims=True) for vector in vectors]
    apart = max(float(np.abs(vectors[0] - vector).max()) for vector in vectors)
    if apart > (1e-4 if precision == "float32" else 3e-2):
        raise ValueError(f"The systems answer differently, by {apart:.1e}, so their speeds cannot be compared.")


def _take_turns(systems, settings):
    """name → figures. The systems alternate, so that varying load affects all of them alike.

    They do after some seconds, not after each request, as a server answers many requests in a row; the first one of a
    turn is not counted.
    """
    texts = mixed_texts(settings.batch_size)
    timings = {}
    for kind, request in (("short", [SHORT]), ("long", [LONG]), ("mixed", texts)):
        times = {name: [] for name in systems}
        for answer in systems.values():
            for _ in range(3):  # tracing and allocation
                answer(request)
        for name, answer in list(systems.items()) * settings.rounds:
            end = time.perf_counter() + settings.seconds
            answer(request)
            while time.perf_counter() < end or len(times[name]) < 2:
                times[name].append(answer(request)[0])
        for name, samples in times.items():
            timings.setdefault(name, {}).update(_figures(kind, samples, len(request)))
            shown = {key: round(value, 2) for key, value in timings[name].items() if key.startswith(kind)}
            _LOGGER.info("%-14s %s  %d requests", name, shown, len(samples))
    return timings


def _figures(kind, samples, rows):
    if kind == "mixed":
        return {"mixed_texts_per_second": rows / statistics.median(samples)}
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    return {f"{kind}_p{fraction}_ms": 1e3 * cuts[fraction - 1] for fraction in (50, 95, 99)}


def _ratios(timings):
    """How many times as fast as transformers in its fastest setting for this kind of request: above 1 is faster."""
    ours = timings["kbert"]
    others = [figures for name, figures in timings.items() if name != "kbert"]
    latency = {
        f"{kind}_p50": min(theirs[f"{kind}_p50_ms"] for theirs in others) / ours[f"{kind}_p50_ms"]
        for kind in ("short", "long")
    }
    throughput = max(theirs["mixed_texts_per_second"] for theirs in others)
    return {**latency, "mixed_throughput": ours["mixed_texts_per_second"] / throughput}


_ALONE = """
import json, resource, sys, time
import tensorflow as tf, tensorflow_text
start = time.perf_counter()
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
seconds = time.perf_counter() - start
serve(text=tf.constant(json.loads(sys.argv[2])))
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def _load_alone(path):
    """(seconds to load the SavedModel, peak memory in MiB of a process that answered one batch of 32)."""
    done = subprocess.run(
        [sys.executable, "-c", _ALONE, str(path), json.dumps(mixed_texts(32))],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    seconds, memory = json.loads(done.stdout.splitlines()[-1])
    return seconds, round(memory)
