"""Charts as pictures, drawn by matplotlib.

Shapes: A heads, S sequence, r rows, c columns. Every picture is uint8 [height, width, 3].
"""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

# Okabe and Ito's colours, which colour-blind people tell apart; charts also differ in marks or places.
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
FAINT, INK = "#b0b6bc", "#202428"
_COLOURS = (BLUE, ORANGE, GREEN, "#cc79a7", "#56b4e9", "#e69f00")
MOST_TOKENS = 24  # of a picture of attention; more would be too small to read
MOST_POINTS = 2000  # of a scatter plot
MOST_BARS = 40  # of a picture of attributions; more would not fit on a screen
_COLUMNS = 4  # maps beside each other
_LONGEST = 24  # characters of a name
_POINTS = 72  # an inch
_DPI = 144  # two pixels a point: for screens of high resolution
# DejaVu Sans comes with matplotlib. The others have the scripts that it lacks, where they are installed.
_FONTS = (
    "Noto Sans CJK JP,Noto Sans CJK SC,Source Han Sans,WenQuanYi Micro Hei,IPAGothic,Arial Unicode MS,"
    "Noto Sans Devanagari,Noto Sans Thai,Noto Sans Bengali,Noto Sans Tamil"
).split(",")


def picture(width: float, height: float, title: str, draw: Callable) -> np.ndarray:
    """A chart on white, for TensorBoard's dark theme too; sizes in points; `draw` adds axes to a matplotlib Figure."""
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    installed = set(font_manager.get_font_names())
    style = {
        "font.family": ["DejaVu Sans", *(font for font in _FONTS if font in installed)],
        "font.size": 9,
        "text.parse_math": False,  # a token may be "$"
        "text.color": INK,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "grid.color": FAINT,
    }
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from ")  # a box is drawn instead
        figure = Figure(figsize=(width / _POINTS, height / _POINTS), dpi=_DPI, layout="constrained")
        if title:
            figure.suptitle(title, fontsize=11, x=0.02, ha="left", wrap=True)
        draw(figure)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def attention_picture(probs: np.ndarray, tokens: Sequence[str], title: str) -> np.ndarray:
    """The attention of all heads of a layer, [A, S, S], from rows to columns; of the first `MOST_TOKENS` tokens."""
    shown = min(len(tokens), MOST_TOKENS)
    if shown < len(tokens):
        title += f", the first {shown} of {len(tokens)} tokens"
    columns = min(_COLUMNS, len(probs))
    rows = -(-len(probs) // columns)
    side = 60 + 10 * shown

    def draw(figure):
        axes = figure.subplots(rows, columns, squeeze=False)
        for place, panel in enumerate(axes.flat):
            panel.set_visible(place < len(probs))
        for head, panel in enumerate(np.asarray(probs)[:, :shown, :shown]):
            _map(axes.flat[head], panel, tokens[:shown], tokens[:shown], high=1.0, size=7)
            axes.flat[head].set_xlabel(f"head {head + 1}")

    return picture(max(320, columns * side), 40 + rows * (side + 16), title, draw)


def heat_map(
    values: ArrayLike, rows: Sequence[str], columns: Sequence[str], title: str, high: float | None = None
) -> np.ndarray:
    """Numbers [r, c] as cells, darker where higher; `high` is the darkest value, None: the highest."""
    values = np.asarray(values, "float64")
    high = float(np.max(values)) if high is None else high

    def draw(figure):
        axes = figure.subplots()
        _map(axes, values, rows, columns, high=high)
        _numbers(axes, values / (high or 1.0), [[f"{value:.2f}" for value in row] for row in values])

    return picture(max(300, 100 + 44 * len(columns)), 80 + 24 * len(rows), title, draw)


def layer_chart(series: Mapping[str, Sequence[float]], title: str, dashed: Sequence[str] = ()) -> np.ndarray:
    """Lines over the layers, the embeddings first, from 0 to 1; baselines and the like are `dashed`."""

    def draw(figure):
        axes = figure.subplots()
        for n, (name, values) in enumerate(series.items()):
            style = {"linestyle": "--", "marker": "."} if name in dashed else {"linewidth": 2, "marker": "o"}
            axes.plot(values, color=_COLOURS[n % len(_COLOURS)], label=name, **style)
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(_as_percent)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("layer (0: embeddings)")
        axes.grid(axis="y")
        figure.legend(loc="outside right upper", frameon=False)

    return picture(600, 330, title, draw)


def attribution_picture(tokens: Sequence[str], attributions: Sequence[float], title: str) -> np.ndarray:
    """A bar for each token, to the right where it speaks for the answer; of the `MOST_BARS` that matter most."""
    values = np.asarray(attributions, "float64")
    shown = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST_BARS])  # in the order of the text
    if len(shown) < len(tokens):
        title += f"\nthe {len(shown)} of {len(tokens)} tokens that matter most"

    def draw(figure):
        axes = figure.subplots()
        colours = [BLUE if value > 0 else ORANGE for value in values[shown]]
        bars = axes.barh(range(len(shown)), values[shown], color=colours)
        axes.bar_label(bars, [f"{value:+.3f}" for value in values[shown]], padding=3, fontsize=8)
        axes.set_yticks(range(len(shown)), [short(tokens[place]) for place in shown])
        axes.invert_yaxis()
        axes.axvline(0.0, color=INK, linewidth=1)
        axes.margins(x=0.2, y=0.01)
        axes.set_xlabel("against  −  |  +  for")

    return picture(480, 90 + 16 * len(shown), title, draw)


def confusion_picture(counts: np.ndarray, names: Sequence[str], title: str) -> np.ndarray:
    """Counts [r, r], gold labels as rows: cells as dark as their fraction of the row, a frame where right."""
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    cell = 64 if len(names) <= 8 else 44

    def draw(figure):
        from matplotlib.patches import Rectangle

        axes = figure.subplots()
        _map(axes, fractions, names, names, high=1.0, size=9)
        _numbers(axes, fractions, [[_short_count(count) for count in row] for row in counts.tolist()])
        for n in range(len(names)):
            axes.add_patch(Rectangle((n - 0.46, n - 0.46), 0.92, 0.92, fill=False, edgecolor=INK))
        axes.set_xlabel("predicted")
        axes.xaxis.set_label_position("top")
        axes.set_ylabel("gold")

    side = 130 + cell * len(names)
    return picture(side, side, title, draw)


def reliability_picture(
    counts: np.ndarray,
    confidence: np.ndarray,
    accuracy: np.ndarray,
    title: str,
    of: str = "the predicted label",
    fraction: str = "accuracy",
) -> np.ndarray:
    """The reliability diagram: accuracy as bars, the gap to the confidence as a line, the counts below.

    The arrays are of bins of equal width. `of` names whose probability it is, `fraction` what the bars show.
    """
    bins = len(counts)
    used = np.flatnonzero(counts)
    middles = (used + 0.5) / bins
    confidence, accuracy = confidence[used], accuracy[used]

    def draw(figure):
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        above.bar(middles, accuracy, 0.84 / bins, color=BLUE, alpha=0.8, label=f"{fraction} (bar)")
        left, right = middles - 0.42 / bins, middles + 0.42 / bins
        above.hlines(confidence, left, right, color=ORANGE, linewidth=3, label="confidence (line)")
        above.vlines(middles, accuracy, confidence, color=ORANGE, linewidth=2)
        above.plot([0, 1], [0, 1], "--", color=INK, linewidth=1, label="perfect (dashed)")
        above.set(xlim=(0, 1), ylim=(0, 1), ylabel=fraction)
        above.grid(axis="y")
        above.yaxis.set_major_formatter(_as_percent)
        below.bar(middles, counts[used], 0.84 / bins, color=BLUE, alpha=0.45)
        below.set(ylabel="examples", xlabel=f"probability of {of}")
        below.xaxis.set_major_formatter(_as_percent)
        figure.legend(loc="outside right upper", frameon=False)

    return picture(520, 460, title, draw)


def scatter_picture(labels: np.ndarray, predictions: np.ndarray, title: str) -> np.ndarray:
    """A point for each of at most `MOST_POINTS` pairs of finite gold and predicted numbers."""
    finite = np.isfinite(labels) & np.isfinite(predictions)
    if others := np.count_nonzero(~finite):
        title += f"\nnot drawn: {others:,} of {len(finite):,} are not finite"
    rows = np.flatnonzero(finite)
    rows = rows[np.linspace(0, len(rows) - 1, min(MOST_POINTS, len(rows)), dtype="int64")]
    labels, predictions = labels[rows], predictions[rows]

    def draw(figure):
        axes = figure.subplots()
        axes.plot(labels, predictions, "o", color=BLUE, alpha=0.4, markersize=5, markeredgewidth=0)
        axes.axline((0, 0), slope=1, color=INK, linestyle="--", linewidth=1)
        both = [*labels, *predictions] or [0.0, 1.0]
        room = 0.05 * (max(both) - min(both)) or 0.5
        limits = (min(both) - room, max(both) + room)
        axes.set(xlim=limits, ylim=limits, xlabel="gold", ylabel="predicted")
        axes.set_aspect("equal")
        axes.grid(color=FAINT, linewidth=0.5)

    return picture(430, 450, title, draw)


def _as_percent(value, _):
    return f"{100 * value:.0f}%"


def short(name: str) -> str:
    """A name that fits beside a chart."""
    name = " ".join(name.split())
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _map(axes, values, rows, columns, high, size=8):
    """Cells from white (0) to blue (`high`), with the names of rows at the left and of columns above."""
    from matplotlib.colors import LinearSegmentedColormap

    blues = LinearSegmentedColormap.from_list("blues", ["white", BLUE])
    axes.imshow(values, cmap=blues, vmin=0.0, vmax=high or 1.0, aspect="auto", interpolation="nearest")
    turned = 90 if max(map(len, columns), default=0) > 8 or len(columns) > 8 else 0
    axes.set_xticks(range(len(columns)), map(short, columns), rotation=turned, fontsize=size)
    axes.set_yticks(range(len(rows)), map(short, rows), fontsize=size)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)


def _numbers(axes, fractions, texts):
    """Writes in every cell, white on dark."""
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            ink = "white" if fractions[i, j] > 0.6 else INK
            axes.text(j, i, text, ha="center", va="center", color=ink, fontsize=8)


def _short_count(count: int) -> str:
    if not count:
        return ""
    return f"{count:,}" if count < 10_000 else f"{count / 1000:.0f}k"
