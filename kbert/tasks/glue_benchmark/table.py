"""A task's scores as a table, with the paper's."""

from collections.abc import Mapping

from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, GlueTask


def describe_all(name: str, scores: Mapping) -> str:
    """The tables of one task, or of all that were learnt and their average beside the paper's, for printing."""
    tables = scores["tasks"] if name == "all" else {name: scores}
    parts = [describe_scores(GLUE_TASKS[task], one) for task, one in tables.items()]
    if scores.get("average") is not None:
        average = f"average without WNLI, dev: {scores['average']:.1f}"
        parts.append(f"{average}  (paper, test: BERT-base 79.6, BERT-large 82.1)")
    return "\n\n".join(parts)


def describe_scores(task: GlueTask, scores) -> str:
    """The rows of the paper, of a constant answer and of this run, in percent, for printing."""
    lines = [f"{task.name:<42}" + "".join(f"{name:>14}" for name in task.columns)]

    def row(name, values, deviations=None):
        cells = [f"{values[m]:.1f}" if m in values else "-" for m in task.columns]
        if deviations:
            cells = [f"{cell} ± {deviations[m]:.1f}" for cell, m in zip(cells, task.columns, strict=True)]
        lines.append(f"{name:<42}" + "".join(f"{cell:>14}" for cell in cells))

    def percent(values):
        return {name: 100 * values[name] for name in task.columns}

    for name, values in task.paper.items():
        row(f"paper: {name}", values)
    row("a constant answer, dev", percent(scores["constant_answer"]))
    runs, grid = len(scores.get("restarts", "1")), scores.get("grid", {})
    if len(grid) > 1:
        for rate, values in grid.items():
            row(f"this grid, dev, learning rate {rate}", percent(values["mean"]))
        row("the best run of the grid, dev", percent(scores["best"]))
    ours = f"this run, dev ({scores['train_examples']:,} examples" + (f", {runs} seeds)" if runs > 1 else ")")
    row(ours, percent(scores["dev"]), percent(scores["deviation"]) if runs > 1 else None)
    return "\n".join(lines)
