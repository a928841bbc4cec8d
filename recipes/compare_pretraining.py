"""Compare pre-trainings by their held-out loss against hours of training, and draw their learning curves.

    for settings in paper small-budget; do
        kbert pretrain records --size mini --settings $settings --hours 2 --output runs/mini-$settings
    done
    python recipes/compare_pretraining.py runs/mini-paper runs/mini-small-budget --output runs/comparison

--output receives comparison.md and comparison.svg, and curves.md and curves.svg: loss and accuracies on training and
held-out text against tokens and hours, and where each run's plateau was; and comparison.json with all figures, the
versions and the date. The runs need not be finished.
"""

from kbert.cli import Command, run_command
from kbert.options import PathLike


def compare(runs: list[str], output: PathLike, *, score: str = "val_mlm_cross_entropy") -> str:
    """Compares pre-trainings by their held-out loss.

    Args:
        runs: output directories of ``kbert pretrain``.
        output: directory for the tables and plots.
        score: the score to compare, a key in history.jsonl.
    """
    import pathlib

    from experiments.compare_pretraining import compare_pretraining

    return compare_pretraining(list(map(pathlib.Path, runs)), pathlib.Path(output), score)


COMMAND = Command(verb=compare, positional=("runs",), report=print, about=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
