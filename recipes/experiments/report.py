"""A table's results as Markdown and CSV."""

import csv
import io

from experiments.verdict import NOT_TRAINED, is_trained

_STEPS, _MASKED, _LEFT_TO_RIGHT = "steps", ("LM perplexity", "LM accuracy"), ("LTR perplexity", "LTR accuracy")


def result_table(result: dict) -> str:
    """A Markdown table: a line for each row, then the paper's figures, then a sentence for each comparison.

    Left-to-right models, whose scores on held-out text cannot be compared with those of masked ones, have columns of
    their own. Where settings were chosen for each score, a second table names them.
    """
    causal = any(row["pretrained"].get("left_to_right") for row in result["rows"])
    pretrained = [_STEPS, *_MASKED, *(_LEFT_TO_RIGHT if causal else ())]
    columns = result["columns"]
    more = [name for row in result["paper_rows"].values() for name in row if name not in columns]
    more += [name for row in result["rows"] for name in row["paper"] if name not in columns]
    paper = list(dict.fromkeys([*columns, *(name for name in more if name not in pretrained)]))
    header = ["", *pretrained, *paper]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for row in result["rows"]:
        name = row["name"] if is_trained(row["pretrained"]) else f"{row['name']} ({NOT_TRAINED})"
        before = _pretrained(row["pretrained"])
        cells = [before.get(column, "") for column in pretrained]
        lines.append(_line(name, cells, [_score(row["scores"].get(column)) for column in paper]))
    figures = {row["name"]: row["paper"] for row in result["rows"] if row["paper"]} | result["paper_rows"]
    for name, one in figures.items():
        cells = ["", *(_figure(one.get(column)) for column in pretrained[1:])]
        lines.append(_line(f"*paper: {name}*", cells, [_figure(one.get(column), ".1f") for column in paper]))
    lines += _chosen(result)
    return "\n".join([*lines, "", *(f"- {sentence}" for sentence in result["sentences"])]) + "\n"


def result_csv(result: dict) -> str:
    """A line for each row and column: scores of every seed, mean, deviation, the paper's figure and the verdict."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["row", "steps", "column", "settings", "mean", "deviation", "seeds", "paper", "reference", "verdict"]
    )
    for row in result["rows"]:
        for column, score in row["scores"].items():
            verdict = row.get("verdicts", {}).get(column, {}).get("word", "")
            seeds = " ".join(f"{value:.4f}" for value in score["values"])
            deviation = "" if score["deviation"] is None else f"{score['deviation']:.4f}"
            writer.writerow(
                [
                    row["name"],
                    row["pretrained"].get("steps", ""),
                    column,
                    describe_options(score.get("options") or {k: score[k] for k in ("learning_rate",) if k in score}),
                    f"{score['mean']:.4f}",
                    deviation,
                    seeds,
                    row["paper"].get(column, ""),
                    row.get("reference", ""),
                    verdict,
                ]
            )
    return text.getvalue()


def describe_options(options: dict) -> str:
    """Settings of a fine-tuning in words.

    Example::

        describe_options({"learning_rate": 1e-4, "bias_correction": True})  # "learning rate 0.0001, bias correction"
    """
    parts = []
    for name, value in options.items():
        words = name.replace("_", " ")
        parts.append(f"no {words}" if value is False else words if value is True else f"{words} {_plain(value)}")
    return ", ".join(parts)


def _plain(value):
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value


def _chosen(result):
    """A table of the settings that each score was chosen with."""
    rows = [row for row in result["rows"] if any(score.get("options") for score in row["scores"].values())]
    if not rows:
        return []
    lines = [
        "",
        "| chosen settings | " + " | ".join(result["columns"]) + " |",
        "|---" * (len(result["columns"]) + 1) + "|",
    ]
    for row in rows:
        scores = [row["scores"].get(column, {}) for column in result["columns"]]
        lines.append(_line(row["name"], [], [describe_options(score.get("options", {})) for score in scores]))
    return lines


def _line(name, before, cells):
    return "| " + " | ".join([name, *before, *cells]) + " |"


def _pretrained(found):
    """The steps and held-out scores of a pre-training, by their columns."""
    perplexity, accuracy = _LEFT_TO_RIGHT if found.get("left_to_right") else _MASKED
    cells = {_STEPS: f"{found['steps']:,}"} if found else {}
    if "mlm_perplexity" in found:
        cells[perplexity] = f"{found['mlm_perplexity']:.1f}"
    if "mlm_accuracy" in found:
        cells[accuracy] = f"{100 * found['mlm_accuracy']:.1f} %"
    return cells


def _score(score):
    if score is None:
        return ""
    return f"{score['mean']:.1f}" + ("" if score["deviation"] is None else f" ± {score['deviation']:.1f}")


def _figure(value, form="g"):
    return "" if value is None else format(value, form)
