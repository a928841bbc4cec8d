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

from benchmarks.settings import BenchmarkSettings
from benchmarks.table import PARTS, measure, measure_table, peer_lines, result_lines, table_lines

from kbert.cli import Command, run_command


def benchmark(part: Literal[(*PARTS, "all")], *, settings: BenchmarkSettings = BenchmarkSettings()) -> tuple[str, dict]:
    """Measures the speed of kbert, alone or compared with other installed libraries.

    Args:
        part: what to measure.
        settings: of what, and for how long.
    """
    if part == "all":
        return part, measure_table([sys.executable, __file__], settings)
    return part, measure(part, settings)


def report(result: tuple[str, dict]) -> None:
    part, measured = result
    lines = table_lines(measured) if part == "all" else peer_lines(measured) + result_lines(measured)
    print("\n".join(lines))


COMMAND = Command(verb=benchmark, positional=("part",), report=report, as_json=lambda result: result[1], about=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
