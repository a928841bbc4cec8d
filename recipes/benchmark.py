"""Measure the speed of kbert, alone or compared with other installed libraries.

    python recipes/benchmark.py tokenize                      # strings to token ids, English prose from tf.data
    python recipes/benchmark.py input --corpus 'wiki/*.gz'    # text or records to masked pair batches
    python recipes/benchmark.py rows --records records        # assigning pairs to packed rows: time and padding
    python recipes/benchmark.py feed --size tiny --records records   # steps on one batch, and fed by the input pipeline
    python recipes/benchmark.py peak --size base --batch-size 8      # this machine's matrix products
    python recipes/benchmark.py train --size mini --peers     # one pre-training step (MLM + NSP)
    python recipes/benchmark.py board --size mini             # the cost of TensorBoard in a training
    python recipes/benchmark.py encode --size base --batch-size 8
    python recipes/benchmark.py serve --model all-MiniLM-L6-v2 --peers   # the exported model, strings to embeddings
    KERAS_BACKEND=jax python recipes/benchmark.py train --size base --batch-size 256 --precision mixed_bfloat16
    python recipes/benchmark.py all --peers --model all-MiniLM-L6-v2     # the table of docs/performance.md

Figures are medians of the steady state. With --peers the systems are measured in turn, round by round, so that their
ratio holds even if the load of the machine varies. Peers run in the precision of --precision, each in the setting in
which a trial found it fastest: keras-hub with or without XLA; transformers on torch, in a process of its own, with
autocast or a model in the lower precision, with the default or a tuned allocator. FLOPs are counted by one formula for
all of them (kbert/training/flops.py). On JAX `train` runs without TensorFlow; on a known GPU or TPU it prints the model
FLOPs utilisation, the share of the maker's peak. Flash attention needs --dropout 0 there.
"""

import argparse
import importlib
import json
import sys

from flags import command, directory, file, plain_errors, positive_int, rate

PARTS = {  # name → module of kbert.benchmarks, function
    "tokenize": ("text", "tokenize"),
    "input": ("text", "pretraining_input"),
    "rows": ("rows", "rows"),
    "feed": ("feed", "feed"),
    "peak": ("peak", "peak"),
    "train": ("training", "train"),
    "board": ("board", "board"),
    "encode": ("encoding", "encode"),
    "serve": ("serving", "serve"),
}


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("part", choices=[*PARTS, "all"], help="what to measure")
    add(
        "--size",
        default="mini",
        choices=("tiny", "mini", "small", "medium", "base", "large"),
        help="of the model (default: mini)",
    )
    add("--batch-size", type=positive_int, default=32, metavar="N", help="rows per batch (default: 32)")
    add("--sequence-length", type=positive_int, default=128, metavar="N", help="tokens of a row (default: 128)")
    predictions = "masked positions in a row (default: 20)"
    add("--max-predictions", type=positive_int, default=20, metavar="N", help=predictions)
    add(
        "--precision",
        default="float32",
        choices=["float32", "mixed_bfloat16", "mixed_float16"],
        help="(default: float32)",
    )
    add("--xla", default="auto", choices=["auto", "on", "off"], help="whether XLA compiles (default: auto)")
    add("--dropout", type=rate, metavar="X", help="train: dropout rate (default: 0.1)")
    add("--corpus", nargs="+", metavar="GLOB", help="text to use (default: the prose of this Python installation)")
    add("--records", metavar="DIR", type=directory, help="records, written by prepare_records.py, instead of text")
    vocabulary = "a vocab.txt (default: one of 8,000 tokens is learned from the prose)"
    add("--vocab", metavar="FILE", type=file, dest="vocabulary", help=vocabulary)
    data = "train, encode: random token ids, or batches of --corpus or --records (default: synthetic)"
    add("--data", default="synthetic", choices=["synthetic", "real"], help=data)
    add("--model", metavar="DIR", help="serve: the encoder to export, a kbert or Hugging Face directory")
    add("--packed", action="store_true", help="input, feed: with packed rows")
    frozen = "serve: export with the weights as constants"
    add("--frozen-weights", action="store_true", help=frozen)
    add("--seconds", type=float, default=5.0, help="duration of one round of one system (default: 5)")
    add("--rounds", type=positive_int, default=5, metavar="N", help="number of rounds (default: 5)")
    add("--peers", action="store_true", help="also measure other libraries that are installed")
    add("--json", action="store_true", help="print the result as one JSON object on the last line")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    part, as_json = arguments.pop("part"), arguments.pop("json")
    with plain_errors():
        from kbert.benchmarks.settings import BenchmarkSettings
        from kbert.training.flops import peak_memory_bytes

        settings = BenchmarkSettings(**arguments)
        if part == "all":
            print_table(settings, as_json)
            return
        module, function = PARTS[part]
        measure = getattr(importlib.import_module(f"kbert.benchmarks.{module}"), function)
        result = {"part": part, **measure(settings)}
    result["peak_memory_mib"] = round(peak_memory_bytes() / 2**20)
    for name, speed in result.get("peers", {}).items():
        compared = f"{speed:14,.0f} tokens/s   kbert is {result['tokens_per_second'] / speed:.2f} times as fast"
        print(f"{name:28s} {compared}   {result.get('peer_settings', {}).get(name, '')}")
    if as_json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:30s} {value:,.4g}" if isinstance(value, float) else f"{name:30s} {value}")


def print_table(settings, as_json):
    """Measures all rows of the table, and prints it."""
    from kbert.benchmarks.table import measure_table, table_lines

    table = measure_table([sys.executable, __file__], settings)
    print("\n".join(table_lines(table)))
    if as_json:
        print(json.dumps(table))


if __name__ == "__main__":
    command(main)
