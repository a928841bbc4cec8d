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
utilisation, the fraction of the maker's peak. Flash attention needs --dropout 0 there.
"""

import sys
from typing import Literal

from benchmarks.settings import DATA, PRECISIONS
from benchmarks.table import PARTS

from kbert.cli import Command, run_command
from kbert.options import Count, FractionBelowOne, PathLike, Positive, verb
from kbert.pretraining.run.pretrain import SIZES


def _run(asked) -> tuple[str, dict]:
    from benchmarks.settings import BenchmarkSettings
    from benchmarks.table import measure, measure_table

    settings = {name: value for name, value in asked.flat().items() if name != "part"}
    if asked.part == "all":
        return "all", measure_table([sys.executable, __file__], BenchmarkSettings(**settings))
    return asked.part, measure(asked.part, BenchmarkSettings(**settings))


@verb(_run)
def benchmark(
    part: Literal[(*PARTS, "all")],
    *,
    size: SIZES = "mini",
    batch_size: Count = 32,
    sequence_length: Count = 128,
    max_predictions: Count = 20,
    precision: Literal[PRECISIONS] = "float32",
    xla: Literal["auto", "on", "off"] = "auto",
    dropout: FractionBelowOne | None = None,
    data: Literal[DATA] = "synthetic",
    corpus: list[str] | None = None,
    records: PathLike | None = None,
    vocabulary: PathLike | None = None,
    packed: bool = False,
    model: PathLike | None = None,
    frozen_weights: bool = False,
    seconds: Positive = 5.0,
    rounds: Count = 5,
    peers: bool = False,
) -> tuple[str, dict]:
    """Measures the speed of kbert, alone or compared with other installed libraries.

    Args:
        part: what to measure.
        size: of the model.
        batch_size: rows per batch.
        sequence_length: tokens of a row.
        max_predictions: masked positions in a row.
        precision: of the arithmetic.
        xla: whether to compile.
        dropout: train: dropout rate; None: 0.1.
        data: train, encode: random token ids, or batches of `corpus` or `records`.
        corpus: text to use; none: the prose of this Python installation.
        records: directory of ``kbert records``, instead of text.
        vocabulary: a vocab.txt; None: one of 8,000 tokens is learned from the prose.
        packed: input, feed: with packed rows.
        model: serve, operations, all: the encoder to export (peers: of Hugging Face).
        frozen_weights: serve, operations, all: the weights are constants.
        seconds: duration of one round of one system.
        rounds: number of rounds.
        peers: also measure other libraries that are installed.
    """


def report(result: tuple[str, dict]) -> None:
    """Prints what was measured."""
    from benchmarks.table import peer_lines, result_lines, table_lines

    part, measured = result
    lines = table_lines(measured) if part == "all" else peer_lines(measured) + result_lines(measured)
    print("\n".join(lines))


COMMAND = Command(verb=benchmark, positional=("part",), report=report, as_json=lambda result: result[1], about=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
