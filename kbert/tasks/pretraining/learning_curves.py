"""Learning curves of pre-trainings against tokens and hours, and the plateau that they cross: a table and a plot."""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence

SCORES = {  # of history.jsonl → title and factor
    "mlm_cross_entropy": ("MLM loss (nats)", 1.0),
    "mlm_accuracy": ("MLM accuracy (%)", 100.0),
    "nsp_accuracy": ("NSP accuracy (%)", 100.0),
}
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
_WIDTH, _HEIGHT, _LEFT, _TOP = 400, 190, 52, 34
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
    path = pathlib.Path(run)
    path = path / "history.jsonl" if path.is_dir() else path
    step, tokens, hours, points = 0, 0.0, 0.0, []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record.get("steps_per_second"):
            speed = record.get("real_tokens_per_second") or record.get("tokens_per_second") or 0.0
            tokens += (record["step"] - step) * speed / record["steps_per_second"]
        hours += (record.get("seconds") or 0.0) / 3600
        step = record["step"]
        points.append(Point(step, tokens, hours, {k: v for k, v in record.items() if isinstance(v, float)}))
    if not points:
        raise ValueError(f"{path}: expected a line for each window of training. Received: none")
    return points


def find_plateau(points: Sequence[Point]) -> tuple[Point, Point] | None:
    """Where the held-out loss stood nearly still before it fell again: first and last evaluation of that time.

    Falls are counted in half a doubling of the tokens. The plateau is around the slowest fall before a faster one: from
    where the loss falls less than twice as fast (and 0.03), until it falls half as fast as at its fastest. None: there
    is none, or it has not ended.
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
    return _nearest(found, grid[start]), _nearest(found, grid[end])


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
    """A Markdown table of held-out scores: some evaluations of each run, closer together at its beginning.

    Args:
        runs: name → result of `read_points`.
        rows: of each run at most.
    """
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

    Args:
        runs: name → result of `read_points`.
    """
    width, height = 2 * _WIDTH, _TOP + len(SCORES) * _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>'
    ]
    for number, (name, colour) in enumerate(zip(runs, itertools.cycle(_COLOURS), strict=False)):
        parts.append(_text(_LEFT + 180 * number, 20, name, fill=colour))
    parts.append(_text(width - 8, 20, "thick: held-out, thin: training; shaded: the plateau", "end"))
    for row, score in enumerate(SCORES):
        for column, axis in enumerate(("tokens", "hours")):
            panel = _panel(runs, score, axis)
            parts.append(f'<g transform="translate({column * _WIDTH} {_TOP + row * _HEIGHT})">{"".join(panel)}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(runs, score, axis):
    title, factor = SCORES[score]
    curves = [
        (name, kind, [(getattr(p, axis), factor * p.scores[kind + score]) for p in points if kind + score in p.scores])
        for name, points in runs.items()
        for kind in ("", "val_")
    ]
    drawn = [point for *_, curve in curves for point in curve if point[0] > 0]  # before the first step is off the scale
    if not drawn:
        return [_text(_LEFT, 12, f"{title}: none")]
    end = max(x for x, _ in drawn)
    low, high = min(y for _, y in drawn), max(y for _, y in drawn)
    spread = (high - low) or 1.0

    def place(x, y):
        share = (y - low) / spread
        return f"{_LEFT + (_WIDTH - _LEFT - 16) * x / end:.1f},{_HEIGHT - 34 - (_HEIGHT - 54) * share:.1f}"

    colours = dict(zip(runs, itertools.cycle(_COLOURS), strict=False))
    lines = [_text(_LEFT, 12, title, weight="bold")]
    for name, points in runs.items():
        if found := find_plateau(points):
            left, right = (float(place(getattr(point, axis), low).split(",")[0]) for point in found)
            lines.append(
                f'<rect x="{left:.1f}" y="20" width="{right - left:.1f}" height="{_HEIGHT - 54}" '
                f'fill="{colours[name]}" opacity="0.12"/>'
            )
    for name, kind, curve in curves:
        points = " ".join(place(x, y) for x, y in curve if x > 0)
        width, opacity = (2.2, 1) if kind else (0.8, 0.5)
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colours[name]}" stroke-width="{width}" '
            f'opacity="{opacity}"/>'
        )
    lines += [_text(_LEFT - 6, 26, f"{high:.1f}", "end"), _text(_LEFT - 6, _HEIGHT - 32, f"{low:.1f}", "end")]
    shown = f"million tokens (to {end / 1e6:,.1f})" if axis == "tokens" else f"hours of training (to {end:.2f})"
    return [*lines, _text(_WIDTH / 2, _HEIGHT - 14, shown, "middle")]


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
