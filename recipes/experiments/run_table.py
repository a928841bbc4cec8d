"""Runs a table row by row, and says before what there is to train."""

import collections
import functools
import logging
import statistics
from collections.abc import Iterable, Mapping

from experiments.cells import CONSTANT
from experiments.paper_tables import Table
from experiments.report import judge_row, summary, when_and_with_what, write_result
from experiments.study import Study
from kbert.pretraining.run.pretrain import describe_estimate
from kbert.training.dry_run import format_estimate

_LOGGER = logging.getLogger("kbert")


def run_table(table: Table, study: Study, results) -> dict:
    """Makes what a table needs, and writes it beside the paper's figures.

    Args:
        study: `Study`; its finished runs are used, whatever table they were made for.
        results: directory, receives ``NAME.json``, ``NAME.md``, ``NAME.csv`` and ``NAME.svg``.

    Returns:
        dict, the content of ``NAME.json``: ``rows`` with scores, means, deviations and verdicts, the last of them with
        the figures of the most frequent answer, and ``sentences``.
    """
    columns = study.columns(table)
    study.records.clear()
    rows = {}
    for row in table.rows:
        scores = {}
        for column, (task, mode) in _columns_of(row, columns).items():
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


def _columns_of(row, columns):
    """The columns of a row: there are no taggers on the features of random weights."""
    is_random = row.finetuning.get("random_weights")
    return {name: (task, mode) for name, (task, mode) in columns.items() if not (is_random and mode)}


def _constant_row(figures):
    """A list with the row of the most frequent answer, empty without a figure."""
    scores = {column: summary([figure]) for column, figure in figures.items() if figure is not None}
    return [{"name": CONSTANT, "series": None, "pretrained": {}, "scores": scores, "paper": {}}] if scores else []


def _remark(row, pretrained):
    """What a row says of itself where its masks never came again."""
    times = row.pretraining.get("dupe_factor")
    epochs = pretrained.get("epochs")
    if times is None or epochs is None or times < epochs:
        return ""
    return f" No masks came again in about {epochs:.1f} epochs, so dupe_factor={times} changed nothing."


def _paper_difference(row, reference, column):
    if column in row.paper and column in reference.paper:
        return row.paper[column] - reference.paper[column]
    return row.paper_sign


def describe_study_plan(study: Study, tables: Iterable[Table]) -> str:
    """Which pre-trainings and fine-tunings of tables are left to do, and what the first pre-training would take.

    Nothing is written. Each training is counted at the first row that needs it.
    """
    pretrainings = {}
    trainings = {}
    left = collections.defaultdict(collections.Counter)
    for table in tables:
        for row in table.rows:
            pretrainings.setdefault(study.pretrainings.folder(row), row)
            for column, (task, mode) in _columns_of(row, study.columns(table)).items():
                found = study.trainings(row, task, row.feature_mode or mode)
                new = {name: there for name, there in found.items() if name not in trainings}
                left[f"{table.name}, {row.name}"][column] += sum(not there for there in new.values())
                trainings |= new
    to_do = [row for row in pretrainings.values() if not study.pretrainings.is_made(row)]
    lines = [f"{len(to_do)} of {len(pretrainings)} pre-trainings are left to do"]
    lines += [f"  {row.name} ({study.pretrainings.name(row)})" for row in to_do]
    lines += _counts("fine-tunings and taggers on features", left, len(trainings))
    if to_do:
        estimate = study.pretrainings.estimate(to_do[0])
        lines += [f"The first pre-training, {to_do[0].name}:", describe_estimate(estimate)]
        lines += _useless_rows(to_do, study.pretrainings.most_epochs(estimate["tokens"]))
    return "\n".join(lines)


def _useless_rows(rows, epochs):
    """A line for each row whose masks are never going to come again."""
    times = {row.name: row.pretraining["dupe_factor"] for row in rows if "dupe_factor" in row.pretraining}
    return [
        f"{name}: with less than {epochs:.1f} epochs, dupe_factor={number} changes nothing; expected more than {number}"
        for name, number in times.items()
        if epochs is not None and epochs <= number
    ]


def describe_comparison_plan(plan: Mapping) -> str:
    """What `experiments.compare_finetuning.compare_finetuning` found in a dry run."""
    lines = _counts("fine-tunings", plan["left"])
    return "\n".join([*lines, "The first one:", format_estimate(plan["first"])] if plan["first"] else lines)


def _counts(what, left, of=None):
    """A line with the sum, and one for each that has something left."""
    total = sum(sum(one.values()) for one in left.values())
    lines = [f"{total}{'' if of is None else f' of {of}'} {what} are left to do"]
    for name, one in left.items():
        if parts := [f"{column} {count}" for column, count in one.items() if count]:
            lines.append(f"  {name}: {', '.join(parts)}")
    return lines
