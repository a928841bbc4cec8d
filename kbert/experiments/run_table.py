"""Run a table of the paper: every row pre-trained, fine-tuned and judged."""

import datetime
import logging
import pathlib
import statistics

from kbert.experiments.plot import result_plot
from kbert.experiments.report import result_csv, result_table
from kbert.experiments.study import Study
from kbert.experiments.table import Table
from kbert.experiments.verdict import judge, sentence
from kbert.files import atomic_file, write_json
from kbert.versions import versions

_LOGGER = logging.getLogger("kbert")


def run_table(table: Table, study: Study, results) -> dict:
    """Makes what a table needs, and writes it beside the paper's figures.

    Args:
        table: `Table`.
        study: `Study`; its finished runs are used, whatever table they were made for.
        results: directory, receives ``NAME.json``, ``NAME.md``, ``NAME.csv`` and ``NAME.svg``.

    Returns:
        dict, the content of ``NAME.json``: ``rows`` with scores, means, deviations and verdicts, and ``sentences``.

    Raises:
        ValueError: a table of features without the task of tagging words.
        As `kbert.pretrain` and `kbert.finetune`.

    Example::

        run_table(paper_table("table5"), study, "results")["sentences"]
    """
    columns = study.columns(table)
    study.records.clear()
    rows, values = [], {}
    for row in table.rows:
        scores = {}
        for column, (task, mode) in columns.items():
            grid = study.scores(row, task, row.feature_mode or mode)
            rate = max(grid, key=lambda one: statistics.mean(grid[one]))
            values[row.name, column] = grid[rate]
            scores[column] = _summary(grid[rate]) | {"learning_rate": rate, "grid": {f"{r:g}": grid[r] for r in grid}}
            _LOGGER.info("%s, %s, %s: %.1f", table.name, row.name, column, scores[column]["mean"])
        rows.append(
            {
                "name": row.name,
                "series": row.series,
                "pretrained": {} if row.finetuning.get("random_weights") else study.describe_pretraining(row),
                "scores": scores,
                "paper": dict(row.paper),
            }
        )
    sentences = []
    for row, entry in zip(table.rows, rows, strict=True):
        reference = table.reference_of(row)
        if reference is None:
            continue
        verdicts = {
            column: judge(
                values[row.name, column], values[reference.name, column], _paper_difference(row, reference, column)
            )
            for column in entry["scores"]
            if (reference.name, column) in values
        }
        entry |= {"reference": reference.name, "verdicts": {name: vars(one) for name, one in verdicts.items()}}
        sentences.append(sentence(row.name, reference.name, verdicts) + _remark(row, entry["pretrained"]))
    result = {
        "table": table.name,
        "title": table.title,
        "source": table.source,
        "columns": list(columns),
        "rows": rows,
        "paper_rows": {name: dict(figures) for name, figures in table.paper_rows.items()},
        "sentences": sentences,
        "settings": study.settings(),
        **_made(study.records.values()),
    }
    _write(result, pathlib.Path(results))
    return result


def _summary(values):
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"values": values, "mean": statistics.mean(values), "deviation": deviation}


def _remark(row, pretrained):
    """What a row says of itself where its masks never came again."""
    times, epochs = row.pretraining.get("dupe_factor"), pretrained.get("epochs")
    if times is None or epochs is None or times < epochs:
        return ""
    return f" Of about {epochs:.1f} epochs none has the masks of another: dupe_factor={times} changed nothing."


def _made(records):
    """When the runs of a table were started, and with which versions; ranges where they differ."""
    records = list(records) or [{"recorded": datetime.datetime.now(datetime.UTC).isoformat(), "versions": versions()}]
    days = sorted({record["recorded"][:10] for record in records})
    names = dict.fromkeys(name for record in records for name in record["versions"])
    found = {name: {record["versions"].get(name) for record in records} - {None} for name in names}
    return {
        "date": days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}",
        "versions": {name: ", ".join(sorted(map(str, one))) for name, one in found.items()},
    }


def _paper_difference(row, reference, column):
    if column in row.paper and column in reference.paper:
        return row.paper[column] - reference.paper[column]
    return row.paper_sign


def _write(result, directory):
    directory.mkdir(parents=True, exist_ok=True)
    name = result["table"]
    for suffix, text in ((".md", result_table(result)), (".csv", result_csv(result)), (".svg", result_plot(result))):
        with atomic_file(directory / f"{name}{suffix}") as file:
            file.write(text)
    write_json(directory / f"{name}.json", result)
