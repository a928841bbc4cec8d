"""Learning curves of pre-trainings against tokens and hours, and the plateau that they cross: a table and a plot."""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence

from experiments.plot import COLOURS, LINES, svg_figure
from kbert.training.logs import read_history

SCORES = {  # of history.jsonl → title and factor
    "mlm_cross_entropy": ("masked-LM loss (nats)", 1.0),
    "mlm_accuracy": ("masked-LM accuracy (%)", 100.0),
    "nsp_accuracy": ("next-sentence accuracy (%)", 100.0),
}
_AXES = {"tokens": ("million tokens", 1e-6), "hours": ("hours of training", 1.0)}  # attributes of `Point`
_PER_DOUBLING = 4  # points of the grid on which a plateau is looked for


@dataclasses.dataclass(frozen=True)
class Point:
    """A line of history.jsonl: steps, tokens without padding and hours of training until then, and the scores.

    Without speeds in the history, tokens are 0.
    """

    step: int
    tokens: float
    hours: float
    scores: Mapping[str, float]  # held-out ones begin with "val_"

    def held_out(self, name: str) -> float | None:
        """A score on held-out text, None where there was no evaluation."""
        return self.scores.get(f"val_{name}")


def read_points(run) -> list[Point]:
    """The curves of a run, finished or not.

    Args:
        run: its directory, or a history.jsonl.
    """
    path = _history(run)
    if not path.is_file():
        raise FileNotFoundError(f"Expected a run with a history.jsonl. Received: {str(path)!r}, which is not a file")
    step = 0
    tokens = 0.0
    hours = 0.0
    points = []
    for record in read_history(path):
        if record.get("steps_per_second"):
            speed = record.get("real_tokens_per_second") or record.get("tokens_per_second") or 0.0
            tokens += (record["step"] - step) * speed / record["steps_per_second"]
        hours += (record.get("seconds") or 0.0) / 3600
        step = record["step"]
        points.append(Point(step, tokens, hours, {k: v for k, v in record.items() if isinstance(v, float)}))
    if not points:
        raise ValueError(f"{path}: expected a line for each window of training. Received: none")
    return points


def read_curve(run, name: str = "val_mlm_cross_entropy") -> list[tuple[float, float]]:
    """[(hours of training, score)] of a run; the time of evaluations is not counted."""
    curve = [(point.hours, point.scores[name]) for point in read_points(run) if name in point.scores]
    if not curve:
        raise ValueError(f"{_history(run)}: expected lines with {name!r}. Received: none")
    return curve


def comparison_table(curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """A Markdown table: a row for each of eight times, a column for each run with its last score until then."""
    end = max(curve[-1][0] for curve in curves.values())
    lines = ["| hours | " + " | ".join(curves) + " |", "|---" * (len(curves) + 1) + "|"]
    for hours in (end * number / 8 for number in range(1, 9)):
        lines.append(f"| {hours:.2f} | " + " | ".join(_score_at(curve, hours) for curve in curves.values()) + " |")
    return "\n".join(lines)


def comparison_plot(curves: Mapping[str, Sequence[tuple[float, float]]], title: str) -> str:
    """SVG text: one panel with the curves against hours."""
    with svg_figure(420, 260) as (figure, text):
        axes = figure.subplots()
        for (name, curve), line, colour in zip(curves.items(), itertools.cycle(LINES), itertools.cycle(COLOURS)):
            axes.plot(*zip(*curve, strict=True), line, color=colour, label=name, marker=".", gid=name)
        axes.set(xlabel=_AXES["hours"][0], ylabel=title)
        axes.grid(linewidth=0.5)
        axes.legend(frameon=False)
        return text()


def find_plateau(points: Sequence[Point]) -> tuple[Point, Point] | None:
    """Where the held-out loss stood nearly still before it fell again: first and last evaluation of that time.

    Falls are counted in half a doubling of the tokens. The plateau is around the slowest fall before a faster one: from
    where the loss falls less than twice as fast (and 0.03), until it falls half as fast as at its fastest. None: there
    is none, or it has not ended. A run that began as another model, with a lower loss than where its slow part begins,
    has none either.
    """
    found = [point for point in points if point.held_out("mlm_cross_entropy") is not None and point.tokens]
    if len(found) < 3:
        return None
    grid = [found[0].tokens]
    while grid[-1] < found[-1].tokens:
        grid.append(min(found[-1].tokens, grid[-1] * 2 ** (1 / _PER_DOUBLING)))
    losses = [_interpolate(found, tokens) for tokens in grid]
    falls = [before - after for before, after in zip(losses, losses[2:], strict=False)]  # in half a doubling
    best = None
    for slow, fall in enumerate(falls[:-1]):
        fast = max(falls[slow + 1 :])
        if fast > _twice(fall) and (best is None or fast - fall > best[0]):
            best = fast - fall, slow, (fast + fall) / 2
    if best is None:
        return None
    _, slow, limit = best
    start = next((n + 1 for n in range(slow, -1, -1) if falls[n] >= _twice(falls[slow])), 0)
    end = next(n for n in range(slow, len(falls)) if falls[n] >= limit)
    first = _nearest(found, grid[start])
    last = _nearest(found, grid[end])
    before = points[0].held_out("mlm_cross_entropy") if points[0].step == 0 else None
    return None if before is not None and before <= first.held_out("mlm_cross_entropy") else (first, last)


def describe_plateau(name: str, points: Sequence[Point]) -> str:
    """A sentence on where the plateau of a run was."""
    found = find_plateau(points)
    if found is None:
        return f"{name}: no plateau that has ended within {points[-1].tokens / 1e6:,.0f} million tokens."
    start, end = found
    loss = end.held_out("mlm_cross_entropy")
    return (
        f"{name}: plateau from {start.tokens / 1e6:,.1f} to {end.tokens / 1e6:,.1f} million tokens (step "
        f"{start.step:,} to {end.step:,}, until hour {end.hours:.2f}), at a held-out loss of {loss:.2f}."
    )


def curves_table(runs: Mapping[str, Sequence[Point]], rows: int = 10) -> str:
    """A Markdown table of held-out scores: some evaluations of each run, closer together at its beginning."""
    lines = ["| run | step | million tokens | hours | " + " | ".join(title for title, _ in SCORES.values()) + " |"]
    lines.append("|---" * (4 + len(SCORES)) + "|")
    for name, points in runs.items():
        found = [point for point in points if point.held_out("mlm_cross_entropy") is not None]
        chosen = {round((len(found) - 1) * (n / max(1, rows - 1)) ** 2) for n in range(rows)} if found else ()
        for point in (found[n] for n in sorted(chosen)):
            cells = [_cell(point.held_out(score), factor) for score, (_, factor) in SCORES.items()]
            place = [name, f"{point.step:,}", f"{point.tokens / 1e6:,.1f}", f"{point.hours:.2f}"]
            lines.append("| " + " | ".join([*place, *cells]) + " |")
    return "\n".join(lines)


def curves_plot(runs: Mapping[str, Sequence[Point]]) -> str:
    """SVG text: a row of panels for each score, against tokens and against hours; plateaus are shaded.

    Thick lines are held-out scores, thin ones those of training.
    """
    plateaus = {name: ends for name, points in runs.items() if (ends := find_plateau(points))}
    with svg_figure(720, 40 + 170 * len(SCORES)) as (figure, text):
        figure.suptitle("thick: held-out, thin: training; shaded: the plateau")
        for row, (score, (title, factor)) in zip(figure.subplots(len(SCORES), 2), SCORES.items(), strict=True):
            for axes, (axis, (label, scale)) in zip(row, _AXES.items(), strict=True):
                for (name, points), line, colour in zip(runs.items(), itertools.cycle(LINES), itertools.cycle(COLOURS)):
                    for kind, style in (("", {"lw": 0.8, "alpha": 0.5}), ("val_", {"lw": 2.0, "label": name})):
                        curve = _curve(points, kind + score, axis, scale, factor)
                        if curve:
                            gid = f"{kind or 'training '}{score} {axis} {name}"
                            axes.plot(*zip(*curve, strict=True), line, color=colour, gid=gid, **style)
                    if name in plateaus:
                        first, last = (scale * getattr(point, axis) for point in plateaus[name])
                        axes.axvspan(first, last, color=colour, alpha=0.12, gid=f"plateau {score} {axis} {name}")
                axes.set(xlabel=label, ylabel=title)
                axes.grid(linewidth=0.5)
            if row[0].get_legend_handles_labels()[1]:
                row[0].legend(frameon=False)
        return text()


def _curve(points, name, axis, scale, factor):
    """[(x, y)]; what is before the first step is off the scale."""
    curve = [(scale * getattr(point, axis), factor * point.scores[name]) for point in points if name in point.scores]
    return [point for point in curve if point[0] > 0]


def _history(run):
    path = pathlib.Path(run)
    return path / "history.jsonl" if path.is_dir() else path


def _score_at(curve, hours):
    """The last score until then; nothing before the first, and after a run has ended."""
    found = [score for time, score in curve if time <= hours + 1e-9]
    return f"{found[-1]:.3f}" if found and hours <= curve[-1][0] * 1.05 + 1e-9 else "–"


def _twice(fall):
    return 2 * max(fall, 0.0) + 0.03


def _interpolate(points, tokens):
    """The held-out loss after a number of tokens."""
    for before, after in itertools.pairwise(points):
        if before.tokens <= tokens <= after.tokens:
            fraction = (tokens - before.tokens) / ((after.tokens - before.tokens) or 1.0)
            first = before.held_out("mlm_cross_entropy")
            last = after.held_out("mlm_cross_entropy")
            return first + fraction * (last - first)
    return points[-1].held_out("mlm_cross_entropy")


def _nearest(points, tokens):
    return min(points, key=lambda point: abs(point.tokens - tokens))


def _cell(value, factor):
    return "" if value is None else f"{factor * value:.{1 if factor > 1 else 3}f}"
