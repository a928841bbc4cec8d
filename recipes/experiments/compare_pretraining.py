"""Compare pre-trainings: held-out scores and learning curves against tokens and hours of training.

    for settings in paper small-budget; do
        kbert pretrain records --size mini --config $settings --hours 2 --output runs/mini-$settings
    done
    python recipes/experiments/compare_pretraining.py runs/mini-paper runs/mini-small-budget --output runs/comparison

Reads each run's history.jsonl; the runs need not be finished. Writes curves.svg and comparison.json, and prints the
held-out loss of all runs at eight times.
"""

import argparse
import pathlib

from matplotlib.figure import Figure

from kbert.files import write_json
from kbert.training.run_log import read_history

SCORES = {  # in history.jsonl → title and factor
    "mlm_cross_entropy": ("masked-LM loss (nats)", 1.0),
    "mlm_accuracy": ("masked-LM accuracy (%)", 100.0),
    "nsp_accuracy": ("next-sentence accuracy (%)", 100.0),
}
AXES = {"tokens": ("million tokens", 1e-6), "hours": ("hours of training", 1.0)}
LOSS = "val_mlm_cross_entropy"
TIMES = 8  # rows of the printed table


def main(runs, output):
    points = {run.name: read_points(run) for run in runs}
    if len(points) < len(runs):
        raise ValueError(f"Expected runs with different names. Received: {', '.join(map(str, runs))}")
    print(loss_by_hours(points))
    output.mkdir(parents=True, exist_ok=True)
    draw(points).savefig(output / "curves.svg")
    write_json(output / "comparison.json", {"runs": [{"name": name, "points": each} for name, each in points.items()]})


def read_points(run):
    """The lines of a run's history as [{"step", "tokens", "hours", scores}]; tokens are without padding."""
    step, tokens, hours, points = 0, 0.0, 0.0, []
    for line in read_history(run / "history.jsonl"):
        if line.get("steps_per_second"):
            speed = line.get("real_tokens_per_second") or line.get("tokens_per_second") or 0.0
            tokens += (line["step"] - step) * speed / line["steps_per_second"]
        hours += (line.get("seconds") or 0.0) / 3600
        step = line["step"]
        scores = {name: line[name] for score in SCORES for name in (score, f"val_{score}") if name in line}
        points.append({"step": step, "tokens": tokens, "hours": hours} | scores)
    return points


def loss_by_hours(points):
    """A Markdown table: for each time the last held-out loss of each run until then, while the run lasted."""
    curves = {name: [(one["hours"], one[LOSS]) for one in each if LOSS in one] for name, each in points.items()}
    end = max(hours for curve in curves.values() for hours, _ in curve)
    lines = [["hours", *curves], ["---"] * (1 + len(curves))]
    for time in (end * number / TIMES for number in range(1, TIMES + 1)):
        found = [[loss for hours, loss in curve if hours <= time + 1e-9] for curve in curves.values()]
        lasted = [curve and curve[-1][0] >= time / 1.05 - 1e-9 for curve in curves.values()]
        cells = [f"{losses[-1]:.3f}" if losses and on else "–" for losses, on in zip(found, lasted, strict=True)]
        lines.append([f"{time:.2f}", *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def curves_table(points, rows=10):
    """A Markdown table of held-out scores: some evaluations of each run, closer together at its start."""
    titles = [title for title, _ in SCORES.values()]
    lines = [["run", "step", "million tokens", "hours", *titles], ["---"] * (4 + len(SCORES))]
    for name, each in points.items():
        found = [one for one in each if LOSS in one]
        for n in sorted({round((len(found) - 1) * (row / max(1, rows - 1)) ** 2) for row in range(rows) if found}):
            one = found[n]
            cells = [f"{one['step']:,}", f"{one['tokens'] / 1e6:,.1f}", f"{one['hours']:.2f}"]
            for score, (_, factor) in SCORES.items():
                value = one.get(f"val_{score}")
                cells.append("" if value is None else f"{factor * value:.{1 if factor > 1 else 3}f}")
            lines.append([name, *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def draw(points):
    """A row of panels for each score: thick lines are held-out scores, thin ones training scores."""
    figure = Figure(figsize=(10, 0.5 + 2.4 * len(SCORES)), layout="constrained")
    figure.suptitle("thick: held-out, thin: training")
    for row, (score, (title, factor)) in zip(figure.subplots(len(SCORES), 2), SCORES.items(), strict=True):
        for axes, (axis, (label, scale)) in zip(row, AXES.items(), strict=True):
            for number, (name, each) in enumerate(points.items()):
                for kind, style in (("", {"lw": 0.8, "alpha": 0.5}), ("val_", {"lw": 2, "label": name})):
                    scored = [one for one in each if kind + score in one and one[axis] > 0]
                    x, y = [scale * one[axis] for one in scored], [factor * one[kind + score] for one in scored]
                    axes.plot(x, y, color=f"C{number}", **style)
            axes.set(xlabel=label, ylabel=title)
        row[0].legend()
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, help="output directories of `kbert pretrain`")
    parser.add_argument("--output", type=pathlib.Path, default="runs/comparison")
    main(**vars(parser.parse_args()))
