"""Measure the speed of kbert, alone or compared with other installed libraries.

    python recipes/benchmark.py tokenize                      # strings to token ids, English prose from tf.data
    python recipes/benchmark.py input --corpus 'wiki/*.gz'    # text or records to masked pair batches
    python recipes/benchmark.py rows --records records        # assigning pairs to packed rows: time and padding
    python recipes/benchmark.py feed --size tiny --records records   # steps on one batch, and fed by the input pipeline
    python recipes/benchmark.py fit --size tiny --peers       # fit on strings, masked inside: processor time
    python recipes/benchmark.py peak --size base --batch-size 8      # this machine's matrix products
    python recipes/benchmark.py train --size mini --peers     # one pre-training step (MLM + NSP)
    python recipes/benchmark.py board --size mini             # the cost of TensorBoard in a training
    python recipes/benchmark.py encode --size base --batch-size 8
    python recipes/benchmark.py serve --model all-MiniLM-L6-v2 --peers   # the exported model, strings to embeddings
    python recipes/benchmark.py operations --precision mixed_bfloat16    # where the time of encoding, or serving, goes
    KERAS_BACKEND=jax python recipes/benchmark.py train --size base --batch-size 256 --precision mixed_bfloat16
    python recipes/benchmark.py all --peers --model all-MiniLM-L6-v2     # the table of docs/performance.md

Figures are medians of the steady state. With --peers the systems are measured in turn, round by round, so that their
ratio holds even if the load of the machine varies. Peers run in the precision of --precision, each in the setting in
which a trial found it fastest (docs/performance.md). FLOPs are counted by one formula for all of them
(kbert/training/flops.py). On JAX `train` runs without TensorFlow; on a known GPU or TPU it prints the model FLOPs
utilisation, the share of the maker's peak. Flash attention needs --dropout 0 there.
"""

import json
import sys

from benchmarks.settings import DATA, PRECISIONS
from benchmarks.table import PARTS, measure

from kbert.command_line import add_flags, make_parser, plain_errors, positive_float, positive_int, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("part", choices=[*PARTS, "all"], help="what to measure")
    add_flags(
        parser,
        *("size", "batch-size", "sequence-length", "max-predictions", "precision", "xla", "dropout"),
        *("corpus", "records", "vocab", "model", "json"),
        size={"default": "mini", "help": "of the model"},
        batch_size={"help": "rows per batch"},
        sequence_length={"help": "tokens of a row"},
        max_predictions={"default": 20, "help": "masked positions in a row"},
        precision={"choices": PRECISIONS, "default": "float32", "help": "of the arithmetic"},
        dropout={"help": "train: dropout rate (default: 0.1)"},
        corpus={"help": "text to use (default: the prose of this Python installation)"},
        records={"help": "records, written by prepare_records.py, instead of text"},
        vocab={"help": "a vocab.txt (default: one of 8,000 tokens is learned from the prose)"},
        model={"required": False, "help": "serve, operations, all: the encoder to export (peers: of Hugging Face)"},
    )
    data = "train, encode: random token ids, or batches of --corpus or --records (default: synthetic)"
    add("--data", default="synthetic", choices=DATA, help=data)
    add("--packed", action="store_true", help="input, feed: with packed rows")
    add("--frozen-weights", action="store_true", help="serve, operations, all: the weights are constants")
    add("--seconds", type=positive_float, default=5.0, help="duration of one round of one system (default: 5)")
    add("--rounds", type=positive_int, default=5, metavar="N", help="number of rounds (default: 5)")
    add("--peers", action="store_true", help="also measure other libraries that are installed")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    part, as_json = arguments.pop("part"), arguments.pop("json")
    with plain_errors():
        from benchmarks.settings import BenchmarkSettings
        from benchmarks.table import measure_table, peer_lines, result_lines, table_lines

        settings = BenchmarkSettings(**arguments)
        if part == "all":
            result = measure_table([sys.executable, __file__], settings)
            lines = table_lines(result)
        else:
            result = measure(part, settings)
            lines = peer_lines(result) + ([] if as_json else result_lines(result))
    print("\n".join(lines))
    if as_json:
        print(json.dumps(result))


if __name__ == "__main__":
    run_program(main)
