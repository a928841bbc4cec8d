"""Pre-trainings beside each other: tables, plots, and the figures behind them."""

import dataclasses
import pathlib
from collections.abc import Iterable

from experiments.learning_curves import (
    SCORES,
    comparison_plot,
    comparison_table,
    curves_plot,
    curves_table,
    describe_plateau,
    find_plateau,
    read_curve,
    read_points,
)
from experiments.report import when_and_with_what
from kbert.files import atomic_file, read_json, write_json
from kbert.training.made_by import INPUTS


def compare_pretraining(runs: Iterable, output, score: str = "val_mlm_cross_entropy") -> str:
    """Writes the learning curves of pre-trainings, and where their plateaus were.

    Args:
        runs: directories of runs, finished or not.
        output: directory, receives ``comparison.md`` and ``.svg`` (the score against hours), ``curves.md`` and ``.svg``
            (loss and accuracies against tokens and hours) and ``comparison.json`` (all of these figures).
        score: the score to compare, a key in history.jsonl.

    Returns:
        The table of ``comparison.md`` and a line for each plateau, for printing.
    """
    runs = [pathlib.Path(run) for run in runs]
    output = pathlib.Path(output)
    are_different = len({run.name for run in runs}) == len(runs)
    runs = {run.name if are_different else str(run): run for run in runs}
    curves = {name: read_curve(run, score) for name, run in runs.items()}
    points = {name: read_points(run) for name, run in runs.items()}
    table = comparison_table(curves)
    plateaus = "\n".join(f"- {describe_plateau(name, each)}" for name, each in points.items())
    records = [read_json(run / INPUTS) for run in runs.values() if (run / INPUTS).is_file()]
    result = {
        "score": score,
        "runs": [
            {"name": name, "curve": curves[name], "plateau": _plateau(each), "points": [_figures(one) for one in each]}
            for name, each in points.items()
        ],
        **when_and_with_what(records),
    }
    output.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("comparison.md", f"{table}\n"),
        ("comparison.svg", comparison_plot(curves, score)),
        ("curves.md", f"{curves_table(points)}\n\n{plateaus}\n"),
        ("curves.svg", curves_plot(points)),
    ):
        with atomic_file(output / name) as file:
            file.write(text)
    write_json(output / "comparison.json", result)
    return f"{table}\n\n{plateaus}"


def _plateau(points):
    """Its first and last evaluation; None without a plateau that has ended."""
    found = find_plateau(points)
    return found and dict(zip(("start", "end"), map(_figures, found), strict=True))


def _figures(point):
    """A point of the curves, with the scores that are drawn."""
    names = (kind + name for name in SCORES for kind in ("", "val_"))
    scores = {name: point.scores[name] for name in names if name in point.scores}
    return {name: value for name, value in dataclasses.asdict(point).items() if name != "scores"} | scores
