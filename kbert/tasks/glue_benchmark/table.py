"""The scores of GLUE as tables, with the paper's."""

from collections.abc import Mapping

from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, GlueTask, best_setting


def describe_all(result: Mapping) -> str:
    """The tables of `kbert.finetuning.finetune_glue`, and the average beside the paper's, for printing."""
    parts = [describe_scores(GLUE_TASKS[name], grid) for name, grid in result["tasks"].items()]
    if result.get("average") is not None:
        average = f"average without WNLI, dev: {result['average']:.1f}"
        parts.append(f"{average}  (paper, test: BERT-base 79.6, BERT-large 82.1)")
    return "\n\n".join(parts)


def describe_scores(task: GlueTask, grid: Mapping) -> str:
    """The rows of the paper, of a constant answer and of the runs of a grid, in percent, for printing."""
    lines = [f"{task.name:<42}" + "".join(f"{name:>14}" for name in task.columns)]

    def row(name, values, deviations=None):
        cells = [f"{values[m]:.1f}" if m in values else "-" for m in task.columns]
        if deviations:
            cells = [f"{cell} ± {deviations[m]:.1f}" for cell, m in zip(cells, task.columns, strict=True)]
        lines.append(f"{name:<42}" + "".join(f"{cell:>14}" for cell in cells))

    def percent(values):
        return {name: 100 * values[name] for name in task.columns if name in values}

    for name, values in task.paper.items():
        row(f"paper: {name}", values)
    row("a constant answer, dev", percent(grid["constant_answer"]))
    if len(grid["settings"]) > 1:
        for each in grid["settings"]:
            setting = "rate {learning_rate:g}, epochs {epochs:g}, batch {batch_size}".format(**each)
            row(setting, percent(each["mean"]))
    if len(grid["runs"]) > 1:
        row("the best run, dev", percent(grid["best"]["dev"]))
    best = best_setting(grid)
    seeds = len({run["seed"] for run in grid["runs"]})
    examples = f"{grid['train_examples']:,} examples" + (f", {seeds} seeds" if seeds > 1 else "")
    row(f"this run, dev ({examples})", percent(best["mean"]), percent(best["deviation"]) if seeds > 1 else None)
    return "\n".join(lines)
