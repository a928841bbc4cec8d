"""Results and learning curves as SVG, drawn by matplotlib; lines and marks differ in black and white too."""

import contextlib
import io
import itertools
import re

LINES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^", "D", "v", "P")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")


@contextlib.contextmanager
def svg_figure(width: float, height: float):
    """A `matplotlib.figure.Figure` of this size in points, and a function that gives its SVG text.

    The same figure is the same text: names of elements are hashed with a fixed salt, and there is no date.
    """
    import matplotlib
    from matplotlib.figure import Figure

    style = {"svg.fonttype": "none", "svg.hashsalt": "kbert", "font.size": 9, "text.parse_math": False}
    with matplotlib.rc_context(style | {"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(width / 72, height / 72), layout="constrained")

        def text() -> str:
            file = io.StringIO()
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
            lines = (line.rstrip() for line in file.getvalue().splitlines())
            return re.sub(r"(\d\.\d\d)\d+", r"\1", "\n".join(lines)) + "\n"  # hundredths of a point

        yield figure, text


def result_plot(result: dict) -> str:
    """A panel for each column: curves over steps where rows are points of a series, else a mean and deviation a row.

    Returns:
        The text of an SVG file.
    """
    columns = result["columns"]
    is_series = any(row["series"] for row in result["rows"])
    height = 260 if is_series else 70 + 22 * len(result["rows"])
    with svg_figure(560, 24 + height * len(columns)) as (figure, text):
        figure.suptitle(result["title"])
        for axes, column in zip(figure.subplots(len(columns), 1, squeeze=False)[:, 0], columns, strict=True):
            (_curves if is_series else _points)(axes, result["rows"], column)
        return text()


def _points(axes, rows, column):
    """A row's mean with its deviation, and the paper's figure at the right."""
    rows = [row for row in rows if column in row["scores"]]
    scores = [row["scores"][column] for row in rows]
    axes.errorbar(
        [score["mean"] for score in scores],
        range(len(rows)),
        xerr=[score["deviation"] or 0.0 for score in scores],
        fmt="o",
        color=COLOURS[0],
        capsize=3,
    )
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.invert_yaxis()
    axes.margins(y=0.12)
    axes.grid(axis="x", linewidth=0.5)
    axes.set_xlabel(f"{column}, mean and standard deviation")
    published = [_paper(row, column) for row in rows]
    if any(published):
        beside = axes.secondary_yaxis("right")
        beside.set_yticks(range(len(rows)), published)
        beside.set_ylabel("the paper")
        beside.tick_params(length=0)


def _curves(axes, rows, column):
    rows = [row for row in rows if column in row["scores"] and row["series"]]
    styles = zip(itertools.cycle(LINES), itertools.cycle(MARKS), itertools.cycle(COLOURS), strict=False)
    for name, (line, mark, colour) in zip(dict.fromkeys(row["series"] for row in rows), styles, strict=False):
        points = [row for row in rows if row["series"] == name]
        scores = [row["scores"][column] for row in points]
        axes.errorbar(
            [row["pretrained"]["steps"] for row in points],
            [score["mean"] for score in scores],
            yerr=[score["deviation"] or 0.0 for score in scores],
            fmt=line + mark,
            color=colour,
            capsize=3,
            label=name,
        )
    axes.set(xlabel="steps of pre-training", ylabel=column)
    axes.grid(linewidth=0.5)
    axes.legend(frameon=False)


def _paper(row, column) -> str:
    figure = (row.get("paper") or {}).get(column)
    return "" if figure is None else f"{figure:g}"
