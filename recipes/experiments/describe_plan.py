"""What experiments are going to train, for printing before they start."""

import collections
from collections.abc import Iterable, Mapping

from experiments.study import Study
from experiments.table import Table
from kbert.tasks.pretraining.table import describe_estimate
from kbert.training.dry_run import format_estimate


def describe_study_plan(study: Study, tables: Iterable[Table]) -> str:
    """Which pre-trainings and fine-tunings of tables are left to do, and what the first pre-training would take.

    Nothing is written. Each training is counted at the first row that needs it.

    Raises:
        ValueError: a table of features without the task of tagging words.
    """
    pretrainings, trainings, left = {}, {}, collections.defaultdict(collections.Counter)
    for table in tables:
        for row in table.rows:
            pretrainings.setdefault(study.pretrainings.folder(row), row)
            for column, (task, mode) in study.columns(table).items():
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
