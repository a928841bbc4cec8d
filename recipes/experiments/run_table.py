"""Run a table of the paper: every row pre-trained, fine-tuned and judged."""

import functools
import logging
import statistics

from experiments.cells import CONSTANT
from experiments.result import judge_row, summary, when_and_with_what, write_result
from experiments.study import Study
from experiments.table import Table

_LOGGER = logging.getLogger("kbert")


def run_table(table: Table, study: Study, results) -> dict:
    """Makes what a table needs, and writes it beside the paper's figures.

    Args:
        study: `Study`; its finished runs are used, whatever table they were made for.
        results: directory, receives ``NAME.json``, ``NAME.md``, ``NAME.csv`` and ``NAME.svg``.

    Returns:
        dict, the content of ``NAME.json``: ``rows`` with scores, means, deviations and verdicts, the last of them with
        the figures of the most frequent answer, and ``sentences``.

    Raises:
        ValueError: a table of features without the task of tagging words.
        As `kbert.pretrain` and `kbert.finetune`.
    """
    columns = study.columns(table)
    study.records.clear()
    rows = {}
    for row in table.rows:
        scores = {}
        for column, (task, mode) in columns.items():
            grid = study.scores(row, task, row.feature_mode or mode)
            rate = max(grid, key=lambda one: statistics.mean(grid[one]))
            scores[column] = summary(grid[rate]) | {"learning_rate": rate, "grid": {f"{r:g}": grid[r] for r in grid}}
            _LOGGER.info("%s, %s, %s: %.1f", table.name, row.name, column, scores[column]["mean"])
        rows[row.name] = {
            "name": row.name,
            "series": row.series,
            "pretrained": {} if row.finetuning.get("random_weights") else study.pretrainings.describe(row),
            "scores": scores,
            "paper": dict(row.paper),
        }
    sentences = []
    for row in table.rows:
        if (reference := table.reference_of(row)) is not None:
            paper = functools.partial(_paper_difference, row, reference)
            said = judge_row(rows[row.name], rows[reference.name], paper)
            sentences.append(said + _remark(row, rows[row.name]["pretrained"]))
    constant = {column: study.constant_answer(task) for column, (task, _) in columns.items()}
    result = {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "columns": list(columns),
        "rows": [*rows.values(), *_constant_row(constant)],
        "paper_rows": {name: dict(figures) for name, figures in table.paper_rows.items()},
        "sentences": sentences,
        "settings": study.settings(),
        **when_and_with_what(study.records.values()),
    }
    write_result(result, results)
    return result


def _constant_row(figures):
    """A list with the row of the most frequent answer, empty without a figure."""
    scores = {column: summary([figure]) for column, figure in figures.items() if figure is not None}
    return [{"name": CONSTANT, "series": None, "pretrained": {}, "scores": scores, "paper": {}}] if scores else []


def _remark(row, pretrained):
    """What a row says of itself where its masks never came again."""
    times, epochs = row.pretraining.get("dupe_factor"), pretrained.get("epochs")
    if times is None or epochs is None or times < epochs:
        return ""
    return f" Of about {epochs:.1f} epochs none has the masks of another: dupe_factor={times} changed nothing."


def _paper_difference(row, reference, column):
    if column in row.paper and column in reference.paper:
        return row.paper[column] - reference.paper[column]
    return row.paper_sign
