"""How fast does an exported encoder answer strings, beside transformers on torch with the same weights?

    python recipes/benchmarks/serving_speed.py all-MiniLM-L6-v2 --sequence-length 256 --precision bfloat16 --peers

Requests are strings and answers one vector per text, tokenization included: one short text, one long text, and a batch
of texts of mixed lengths. Also the size of the export, and seconds and memory to load it (with kbert's imports).
"""

import functools
import statistics
import tempfile
import time

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  a server links these ops
from torch_peer import torch_serving, torch_settings
from turns import arguments, report, take_turns, timed

from kbert import build_pipeline, export, load_pretrained
from kbert.weights.source import open_checkpoint

SHORT = "A man is playing a guitar on the street."
SENTENCES = (
    "The committee met on Tuesday in Geneva.",
    "Ada Lovelace wrote about engines that compute, and about much else that nobody had built yet.",
    "It rained.",
    "Nobody had asked the engineers, who would have said that the bridge could not carry a train of that weight.",
)
LONG = " ".join(SENTENCES * 4)  # about 200 words
LENGTHS = (2, 6, 9, 12, 7, 18, 4, 25, 10, 14, 40, 5, 8, 110, 16, 30)  # words of mixed texts, most of them short


def main(model, batch_size, sequence_length, precision, frozen_weights, peers, rounds, seconds):
    kinds = {"one short text": [SHORT], "one long text": [LONG], "mixed texts": mixed_texts(batch_size)}
    with tempfile.TemporaryDirectory() as directory:
        pipeline = build_pipeline(load_pretrained(model, task="encoder"), pair=False, sequence_length=sequence_length)
        path = export(pipeline, directory, precision=precision, frozen_weights=frozen_weights)
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        loading = take_turns({"load": functools.partial(time_loading, path)}, 1, 0.0)["load"]
        print(f"{size / 1e6:.1f} MB on disk, loaded in {loading.seconds[0]:.1f} s, {loading.memory:,.0f} MiB of memory")
        source = str(open_checkpoint(model).path)
        for kind, texts in kinds.items():
            systems = {"kbert": functools.partial(saved_model, path, texts)}
            for setting in torch_settings("float32" if precision == "float32" else "mixed_bfloat16") if peers else ():
                own = torch_serving, source, texts, sequence_length, setting
                systems[f"torch, {setting}"] = functools.partial(*own)
            found = take_turns(systems, rounds, seconds)
            print(f"\n{kind}")
            report(found, len(texts), "texts")
            for name, measured in found.items() if len(texts) == 1 else ():
                cuts = statistics.quantiles([1e3 * each for each in measured.seconds], n=100, method="inclusive")
                print(f"{name}: p50 {cuts[49]:.1f} ms, p95 {cuts[94]:.1f} ms, p99 {cuts[98]:.1f} ms")


def mixed_texts(rows):
    words = LONG.split()
    return [" ".join(words[n % 20 : n % 20 + LENGTHS[n % len(LENGTHS)]]) for n in range(rows)]


def saved_model(path, texts):
    return timed(embed_by_saved_model(path, texts))


def embed_by_saved_model(path, texts):
    """A function that embeds the texts by an exported model."""
    loaded = tf.saved_model.load(str(path))
    serve, strings = loaded.signatures["serving_default"], tf.constant(texts)
    serve(text=tf.constant([SHORT]))  # as a server's first warm-up request: frozen weights are packed for it

    def embed(loaded=loaded):  # its variables are deleted with it
        return np.asarray(serve(text=strings)["embedding"])

    return embed


def time_loading(path):
    """The work of loading a SavedModel and answering once."""
    start = time.perf_counter()
    tf.saved_model.load(str(path)).signatures["serving_default"](text=tf.constant(mixed_texts(32)))
    seconds = time.perf_counter() - start
    return lambda: [(seconds, 0.0)]


if __name__ == "__main__":
    parser = arguments(__doc__, batch_size=32, sequence_length=128, precision="float32")
    parser.add_argument("model", help="a kbert or Hugging Face model")
    parser.add_argument("--frozen-weights", action="store_true", help="the weights are constants")
    main(**vars(parser.parse_args()))
