"""Learning curves of pre-trainings against tokens and hours, and the plateau that they cross: a table and a plot."""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence

from kbert.training.history import read_history

SCORES = {  # of history.jsonl → title and factor
    "mlm_cross_entropy": ("masked-LM loss (nats)", 1.0),
    "mlm_accuracy": ("masked-LM accuracy (%)", 100.0),
    "nsp_accuracy": ("next-sentence accuracy (%)", 100.0),
}
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
_WIDTH, _HEIGHT, _LEFT, _TOP = 400, 190, 52, 34
_TOKENS = "tokens", lambda end: f"million tokens (to {end / 1e6:,.1f})"  # attribute of `Point`, label of the axis
_HOURS = "hours", lambda end: f"hours of training (to {end:.2f})"
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

    Raises:
        FileNotFoundError: no history there.
        ValueError: an empty history.
    """
    path = _history(run)
    if not path.is_file():
        raise FileNotFoundError(f"Expected a run with a history.jsonl. Received: {str(path)!r}, which is not a file")
    step, tokens, hours, points = 0, 0.0, 0.0, []
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
    """[(hours of training, score)] of a run; the time of evaluations is not counted.

    Raises:
        FileNotFoundError, ValueError: as `read_points`; a history without this score.
    """
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
    colours = _colours(curves)
    lines = [(colours[name], 2.2, 1, curve) for name, curve in curves.items()]
    return _svg(_WIDTH, _TOP + _HEIGHT, colours, [_group(0, _TOP, _panel(title, lines, _HOURS))])


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
    first, last = _nearest(found, grid[start]), _nearest(found, grid[end])
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
    colours, width = _colours(runs), 2 * _WIDTH
    plateaus = {name: found for name, points in runs.items() if (found := find_plateau(points))}
    parts = [_text(width - 8, 20, "thick: held-out, thin: training; shaded: the plateau", "end")]
    for row, (score, (title, factor)) in enumerate(SCORES.items()):
        for column, axis in enumerate((_TOKENS, _HOURS)):
            lines = [
                (colours[name], *line, _curve(points, kind + score, axis, factor))
                for name, points in runs.items()
                for kind, line in (("", (0.8, 0.5)), ("val_", (2.2, 1)))
            ]
            shaded = [(colours[name], *(getattr(p, axis[0]) for p in found)) for name, found in plateaus.items()]
            parts.append(_group(column * _WIDTH, _TOP + row * _HEIGHT, _panel(title, lines, axis, shaded)))
    return _svg(width, _TOP + len(SCORES) * _HEIGHT, colours, parts)


def _curve(points, name, axis, factor):
    """[(x, y)]; what is before the first step is off the scale."""
    curve = [(getattr(point, axis[0]), factor * point.scores[name]) for point in points if name in point.scores]
    return [point for point in curve if point[0] > 0]


def _panel(title, curves, axis, shaded=()):
    """The lines of a panel: `curves` of (colour, width, opacity, points), `shaded` parts of (colour, start, end)."""
    drawn = [point for *_, curve in curves for point in curve]
    if not drawn:
        return [_text(_LEFT, 12, f"{title}: none")]
    end = max(x for x, _ in drawn)
    low, high = min(y for _, y in drawn), max(y for _, y in drawn)
    spread = (high - low) or 1.0

    def across(x):
        return _LEFT + (_WIDTH - _LEFT - 16) * x / (end or 1.0)

    lines = [_text(_LEFT, 12, title, weight="bold")]
    for colour, first, last in shaded:
        size = f'width="{across(last) - across(first):.1f}" height="{_HEIGHT - 54}"'
        lines.append(f'<rect x="{across(first):.1f}" y="20" {size} fill="{colour}" opacity="0.12"/>')
    for colour, width, opacity, curve in curves:
        points = " ".join(f"{across(x):.1f},{_HEIGHT - 34 - (_HEIGHT - 54) * (y - low) / spread:.1f}" for x, y in curve)
        style = f'fill="none" stroke="{colour}" stroke-width="{width}" opacity="{opacity}"'
        lines.append(f'<polyline points="{points}" {style}/>')
    lines += [_text(_LEFT - 6, 26, f"{high:.1f}", "end"), _text(_LEFT - 6, _HEIGHT - 32, f"{low:.1f}", "end")]
    return [*lines, _text(_WIDTH / 2, _HEIGHT - 14, axis[1](end), "middle")]


def _colours(names):
    return dict(zip(names, itertools.cycle(_COLOURS), strict=False))


def _group(x, y, lines):
    return f'<g transform="translate({x} {y})">{"".join(lines)}</g>'


def _svg(width, height, colours, parts):
    """A drawing with the names of the runs at its top."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
    names = [_text(_LEFT + 180 * n, 20, name, fill=colour) for n, (name, colour) in enumerate(colours.items())]
    paper = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([f'{head} font-size="12">', paper, *names, *parts, "</svg>"]) + "\n"


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
            share = (tokens - before.tokens) / ((after.tokens - before.tokens) or 1.0)
            first, last = before.held_out("mlm_cross_entropy"), after.held_out("mlm_cross_entropy")
            return first + share * (last - first)
    return points[-1].held_out("mlm_cross_entropy")


def _nearest(points, tokens):
    return min(points, key=lambda point: abs(point.tokens - tokens))


def _cell(value, factor):
    return "" if value is None else f"{factor * value:.{1 if factor > 1 else 3}f}"


def _text(x, y, text, anchor="start", weight="normal", fill="black"):
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}">{safe}</text>'
