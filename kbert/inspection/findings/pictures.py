"""Pictures of attention, layers and attributions.

Shapes: A heads, S sequence, r rows, c columns. Every picture is uint8 [height, width, 3].
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kbert.inspection.canvas import BLUE, FAINT, GREEN, INK, ORANGE, Canvas, nice_ticks, picture_names

MOST_TOKENS = 24  # of a picture of attention; more would be too small to read
MOST_BARS = 40  # of a picture of attributions; more would not fit on a screen
_COLUMNS = 4  # maps beside each other
_CELL, _LABEL, _GAP = 10, 58, 18  # points: a token's row, the tokens' names, between maps
_COLOURS = (BLUE, ORANGE, GREEN, (204, 121, 167), (86, 180, 233), (230, 159, 0))


def attention_picture(probs, tokens: Sequence[str], title: str) -> np.ndarray:
    """The attention of all heads of a layer: a row for each token that attends, dark where the attention goes.

    Args:
        probs: [A, S, S].
        tokens: S names; of more than `MOST_TOKENS` the first are drawn, and the title says so.
    """
    shown = min(len(tokens), MOST_TOKENS)
    if shown < len(tokens):
        title += f", the first {shown} of {len(tokens)} tokens"
    names, side = [name[:9] for name in picture_names(tokens[:shown])], shown * _CELL
    columns = min(_COLUMNS, len(probs))
    rows = -(-len(probs) // columns)
    size = (_LABEL + columns * (side + _GAP) + 12, 34 + rows * (_LABEL + side + _GAP + 8))
    canvas = _sheet(max(size[0], 320), size[1], title)
    for head, one in enumerate(np.asarray(probs)[:, :shown, :shown]):
        left = _LABEL + (head % columns) * (side + _GAP)
        top = 34 + _LABEL + (head // columns) * (_LABEL + side + _GAP + 8)
        canvas.text(left + side / 2, top + side + 10, f"head {head + 1}", size=10, anchor="mm")
        for n, name in enumerate(names):
            if head % columns == 0:
                canvas.text(left - 4, top + (n + 0.5) * _CELL, name, size=9, anchor="rm")
            width = canvas.text_width(name, 9)
            canvas.text(left + (n + 0.5) * _CELL, top - 4 - width / 2, name, size=9, turned=True)
        for i, j in zip(*np.nonzero(one > 0.004), strict=True):  # one of 255 steps of a colour
            x, y = left + j * _CELL, top + i * _CELL
            canvas.rectangle(x, y, x + _CELL, y + _CELL, fill=(*BLUE, round(255 * float(one[i, j]))))
        canvas.rectangle(left, top, left + side, top + side, outline=FAINT)
    return canvas.pixels()


def heat_map(values, rows: Sequence[str], columns: Sequence[str], title: str, high: float | None = None) -> np.ndarray:
    """A table of numbers whose cells are the darker the higher they are.

    Args:
        values: [r, c].
        high: what is darkest, as 0 is white; None: the highest value.
    """
    values, high = np.asarray(values, "float64"), float(np.max(values)) if high is None else high
    rows, columns = picture_names(rows), picture_names(columns)
    width, height = 44, 24
    left, top = 84, 64
    canvas = _sheet(max(left + width * len(columns) + 16, 300), top + height * len(rows) + 16, title)
    for j, name in enumerate(columns):
        canvas.text(left + (j + 0.5) * width, top - 10, name, size=10, anchor="mm")
    for i, name in enumerate(rows):
        canvas.text(left - 8, top + (i + 0.5) * height, name, size=10, anchor="rm")
        for j, value in enumerate(values[i]):
            share = min(max(value / (high or 1.0), 0.0), 1.0)
            x, y = left + j * width, top + i * height
            canvas.rectangle(x, y, x + width - 1, y + height - 1, fill=(*BLUE, round(230 * share)))
            colour = (255, 255, 255) if share > 0.6 else INK
            canvas.text(x + width / 2, y + height / 2, f"{value:.2f}", size=10, anchor="mm", colour=colour)
    return canvas.pixels()


def layer_chart(series: Mapping[str, Sequence[float]], title: str, dashed: Sequence[str] = ()) -> np.ndarray:
    """Lines over the layers, the embeddings first, from 0 to 1.

    Args:
        series: name → a number from 0 to 1 for each layer.
        dashed: names of lines that are not the finding itself, such as baselines.
    """
    left, top, side, height = 48, 44, 420, 240
    last = max(len(values) for values in series.values()) - 1
    canvas = _sheet(left + side + 170, top + height + 52, title)
    for tick in nice_ticks(0.0, 1.0, 5):
        y = top + height * (1 - tick)
        canvas.line([(left, y), (left + side, y)], FAINT)
        canvas.text(left - 6, y, f"{100 * tick:.0f}%", size=10, anchor="rm")
    every = max(1, -(-last // 12))
    for layer in range(0, last + 1, every):
        x = left + side * layer / max(last, 1)
        canvas.text(x, top + height + 14, str(layer), size=10, anchor="mm")
    canvas.text(left + side / 2, top + height + 36, "layer (0: embeddings)", anchor="mm")
    for n, (name, values) in enumerate(series.items()):
        colour = _COLOURS[n % len(_COLOURS)]
        points = [(left + side * k / max(last, 1), top + height * (1 - value)) for k, value in enumerate(values)]
        if name in dashed:
            for a, b in zip(points, points[1:], strict=False):
                canvas.line([a, b], colour, width=1.5, dash=5)
        elif len(points) > 1:
            canvas.line(points, colour, width=2)
        for x, y in points:
            canvas.disc(x, y, 2 if name in dashed else 3.5, colour)
        canvas.text(left + side + 12, top + 8 + 18 * n, name + (" (dashed)" if name in dashed else ""), colour=colour)
    return canvas.pixels()


def attribution_picture(tokens: Sequence[str], attributions: Sequence[float], title: str) -> np.ndarray:
    """A bar for each token: to the right where it speaks for the answer, to the left where against it.

    Args:
        tokens: S names; of more than `MOST_BARS` those with the longest bars are drawn, and the title says so.
        attributions: S numbers.
    """
    row, left, side, top = 16, 120, 160, 62
    names, attributions = picture_names(tokens), np.asarray(attributions, "float64")
    shown = np.sort(np.argsort(-np.abs(attributions), kind="stable")[:MOST_BARS])  # in their order in the text
    canvas = _sheet(left + 2 * side + 70, top + row * len(shown) + 12, title)
    if len(shown) < len(names):
        canvas.text(12, 38, f"the {len(shown)} of {len(names)} tokens that matter most", size=10)
    most = np.abs(attributions).max(initial=0.0) or 1.0
    middle = left + side
    canvas.text(middle - 8, 46, "against  -", size=10, anchor="rm", colour=ORANGE)
    canvas.text(middle + 8, 46, "+  for", size=10, colour=BLUE)
    for n, (name, value) in enumerate((names[place], float(attributions[place])) for place in shown):
        y = top + row * n
        canvas.text(left - 8, y + row / 2, name[:16], size=11, anchor="rm")
        end = middle + side * value / most
        if value:
            box = (min(middle, end), y + 2, max(middle, end), y + row - 2)
            canvas.rectangle(*box, fill=BLUE if value > 0 else ORANGE)
        canvas.text(middle + side + 62, y + row / 2, f"{value:+.3f}", size=10, anchor="rm")
    canvas.line([(middle, top - 4), (middle, top + row * len(shown))], INK)
    return canvas.pixels()


def _sheet(width, height, title):
    """A canvas with as much of a title as fits on its first line."""
    most = int((width - 24) / 8)  # characters
    return Canvas(width, height, title if len(title) <= most else title[: most - 3] + "...")
