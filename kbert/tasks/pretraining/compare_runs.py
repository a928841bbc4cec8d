"""Held-out loss of pre-trainings against hours: a table, and a plot without further libraries."""

import itertools
import json
import pathlib

_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
_WIDTH, _HEIGHT, _MARGIN = 720, 400, 50


def read_curve(run, name="val_mlm_cross_entropy") -> list[tuple[float, float]]:
    """[(hours of training, score)] of a run, finished or not; the time of evaluations is not counted.

    Args:
        run: path of the run.
        name: of a score in its history.jsonl.

    Raises:
        FileNotFoundError: no history there.
        ValueError: a history without this score.
    """
    path, hours, curve = pathlib.Path(run) / "history.jsonl", 0.0, []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        hours += record.get("seconds", 0.0) / 3600
        if record.get(name) is not None:
            curve.append((hours, record[name]))
    if not curve:
        raise ValueError(f"{path}: expected lines with {name!r}. Received: none")
    return curve


def comparison_table(curves: dict, rows: int = 8) -> str:
    """A Markdown table: a row for each of some times, a column for each run with its last score until then.

    Args:
        curves: name → result of `read_curve`.
        rows: int, the number of times, evenly spaced up to the end of the longest run.

    Example::

        comparison_table({"paper": read_curve("runs/paper"), "small": read_curve("runs/small")})
    """
    end = max(curve[-1][0] for curve in curves.values())
    lines = ["| hours | " + " | ".join(curves) + " |", "|---" * (len(curves) + 1) + "|"]
    for number in range(1, rows + 1):
        hours = end * number / rows
        lines.append(f"| {hours:.2f} | " + " | ".join(_score_at(curve, hours) for curve in curves.values()) + " |")
    return "\n".join(lines)


def comparison_plot(curves: dict) -> str:
    """The curves as SVG text.

    Args:
        curves: name → result of `read_curve`.
    """
    points = [point for curve in curves.values() for point in curve]
    end, low, high = max(h for h, _ in points), min(s for _, s in points), max(s for _, s in points)
    spread = (high - low) or 1.0

    def place(hours, score):
        x = _MARGIN + (_WIDTH - 2 * _MARGIN) * hours / (end or 1.0)
        return f"{x:.1f},{_MARGIN + (_HEIGHT - 2 * _MARGIN) * (high - score) / spread:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_WIDTH // 2}" y="{_HEIGHT - 12}" text-anchor="middle">hours (to {end:.2f})</text>',
        f'<text x="8" y="{_MARGIN}">{high:.2f}</text><text x="8" y="{_HEIGHT - _MARGIN}">{low:.2f}</text>',
    ]
    for number, ((name, curve), colour) in enumerate(zip(curves.items(), itertools.cycle(_COLOURS), strict=False)):
        line = " ".join(place(*point) for point in curve)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        safe = name.replace("&", "&amp;").replace("<", "&lt;")
        parts.append(f'<text x="{_WIDTH - 220}" y="{24 + 18 * number}" fill="{colour}">{safe}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _score_at(curve, hours):
    """The last score until then; nothing before the first, and after a run has ended."""
    found = [score for time, score in curve if time <= hours + 1e-9]
    return f"{found[-1]:.3f}" if found and hours <= curve[-1][0] * 1.05 + 1e-9 else "–"
