"""Measure kbert on this machine, alone or beside the installed peers.

    python recipes/benchmark.py tokenize                      # strings to token ids, English prose from tf.data
    python recipes/benchmark.py input --corpus 'wiki/*.gz'    # text or records to masked pair batches
    python recipes/benchmark.py train --size mini --peers     # one pre-training step (MLM + NSP)
    python recipes/benchmark.py encode --size base --batch-size 8
    python recipes/benchmark.py serve --model all-MiniLM-L6-v2 --peers   # the exported model, strings to embeddings

Figures are medians of the steady state; with --peers every system is measured in turn, round by round, in this process,
so that a ratio means something even where the figure of a loaded machine does not. FLOPs are counted by one formula for
everybody (kbert/training/flops.py).
"""

import argparse
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import benchmark_encoder
import benchmark_serve
import benchmark_text
from flags import directory, file, plain_errors

from kbert.training.flops import matmul_peak, peak_memory_bytes

PARTS = {
    "tokenize": benchmark_text.tokenize,
    "input": benchmark_text.pretraining_input,
    "train": benchmark_encoder.train,
    "encode": benchmark_encoder.encode,
    "serve": benchmark_serve.serve,
}


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--size", default="mini", choices=("tiny", "mini", "small", "medium", "base", "large"))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--predictions", type=int, default=20, help="masked positions per sequence (default 20)")
    parser.add_argument("--precision", default="float32", choices=["float32", "mixed_bfloat16", "mixed_float16"])
    parser.add_argument("--xla", default="auto", choices=["auto", "on", "off"])
    parser.add_argument(
        "--corpus", nargs="+", metavar="GLOB", help="real text (default: the prose of this installation)"
    )
    parser.add_argument("--records", metavar="DIR", type=directory,
                        help="input: records made by prepare_records.py instead of text")  # fmt: skip
    parser.add_argument("--vocab", metavar="FILE", type=file,
                        help="vocab.txt (default: one of 8,000 tokens is learned from the prose)")  # fmt: skip
    parser.add_argument("--data", default="synthetic", choices=["synthetic", "real"],
                        help="train, encode: random token ids, or batches of --corpus (default synthetic)")  # fmt: skip
    parser.add_argument("--model", metavar="DIR", help="serve: the encoder, a kbert or Hugging Face directory")
    parser.add_argument("--seconds", type=float, default=5.0, help="time for one round of one system (default 5)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", action="store_true", help="also measure the peers that are installed")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object on the last line")
    args = parser.parse_args(argv)
    if args.data == "real" and not (args.corpus or args.records):
        parser.error("--data real: expected --corpus GLOB or --records DIR to take the batches from")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        result = {"part": args.part, **PARTS[args.part](args)}
    if "gflops_per_second" in result:
        peak = matmul_peak(args.precision)
        result["matmul_peak_gflops_per_second"] = peak / 1e9
        result["share_of_matmul_peak"] = result["gflops_per_second"] * 1e9 / peak
    result["peak_memory_mib"] = round(peak_memory_bytes() / 2**20)
    for name, rate in result.get("peers", {}).items():
        print(f"{name:28s} {rate:14,.0f} tokens/s   kbert is {result['tokens_per_second'] / rate:.2f} times as fast")
    if args.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:30s} {value:,.4g}" if isinstance(value, float) else f"{name:30s} {value}")


if __name__ == "__main__":
    main()
