"""A table's results as a plot, without further libraries: SVG."""

import itertools

_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
_WIDTH, _PANEL, _LEFT, _LINE = 720, 320, 230, 24
_MARGIN = 40


def result_plot(result: dict) -> str:
    """A panel for each column: curves over steps where rows are points of a series, else a mean and deviation a row.

    Returns:
        The text of an SVG file.
    """
    panel = _curves if any(row["series"] for row in result["rows"]) else _points
    drawn = [panel(result["rows"], column) for column in result["columns"]]
    height, parts = 0, []
    for lines, size in drawn:
        parts.append(f'<g transform="translate(0 {height})">' + "".join(lines) + "</g>")
        height += size
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif"'
    return (
        "\n".join(
            [head + ' font-size="13">', f'<rect width="{_WIDTH}" height="{height}" fill="white"/>', *parts, "</svg>"]
        )
        + "\n"
    )


def _points(rows, column):
    rows = [row for row in rows if column in row["scores"]]
    scale, labels = _scale(rows, column, _LEFT, _WIDTH - _MARGIN)
    lines = [_text(_LEFT, 20, column, weight="bold"), *(_text(x, 40, label, "middle") for x, label in labels)]
    for number, row in enumerate(rows):
        y, score = 62 + _LINE * number, row["scores"][column]
        low, high = (scale(score["mean"] + sign * (score["deviation"] or 0.0)) for sign in (-1, 1))
        lines.append(_text(_LEFT - 12, y + 4, row["name"], "end"))
        lines.append(
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{_COLOURS[0]}" stroke-width="2"/>'
        )
        lines.append(f'<circle cx="{scale(score["mean"]):.1f}" cy="{y}" r="4" fill="{_COLOURS[0]}"/>')
    return lines, 62 + _LINE * len(rows) + 16


def _curves(rows, column):
    rows = [row for row in rows if column in row["scores"] and row["series"]]
    scale, labels = _scale(rows, column, _PANEL - _MARGIN, 40)
    end = max(row["pretrained"]["steps"] for row in rows)
    lines = [_text(_MARGIN, 20, column, weight="bold")]
    lines += [_text(_MARGIN + 8, y + 4, label, "end") for y, label in labels]
    lines.append(_text(_WIDTH / 2, _PANEL - 8, f"steps of pre-training (to {end:,})", "middle"))
    series = dict.fromkeys(row["series"] for row in rows)
    for number, (name, colour) in enumerate(zip(series, itertools.cycle(_COLOURS), strict=False)):
        points = []
        for row in (row for row in rows if row["series"] == name):
            x = 2 * _MARGIN + (_WIDTH - 4 * _MARGIN) * row["pretrained"]["steps"] / end
            score = row["scores"][column]
            low, high = (scale(score["mean"] + sign * (score["deviation"] or 0.0)) for sign in (-1, 1))
            lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>')
            points.append(f"{x:.1f},{scale(score['mean']):.1f}")
        lines.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(_text(_WIDTH - 3 * _MARGIN, 20 + 18 * number, name, fill=colour))
    return lines, _PANEL


def _scale(rows, column, start, end):
    """A function of a score that gives its place, and [(place, label)] of the lowest and the highest."""
    scores = [row["scores"][column] for row in rows]
    low = min(score["mean"] - (score["deviation"] or 0.0) for score in scores)
    high = max(score["mean"] + (score["deviation"] or 0.0) for score in scores)
    spread = (high - low) or 1.0

    def place(score):
        return start + (end - start) * (score - low) / spread

    return place, [(place(low), f"{low:.1f}"), (place(high), f"{high:.1f}")][: 1 + (high > low)]


def _text(x, y, text, anchor="start", weight="normal", fill="black"):
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}">{safe}</text>'
