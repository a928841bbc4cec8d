"""Fine-tune BERT on GLUE, as section 4.1 of the paper: batches of 32, 3 epochs, the official metrics on dev.

    python recipes/finetune_glue.py --task SST-2 --data glue --init runs/tiny --output runs/sst2
    python recipes/finetune_glue.py --task all --data glue --init runs/tiny --output runs/glue --submission \\
        --learning-rate 5e-5,4e-5,3e-5,2e-5

--data is the official download, with a folder for each task in it (or the task's own folder). --task all takes every
task whose folder is there, each in a folder of --output. Several --learning-rate, separated by commas, are the paper's
grid; --restarts 3 trains each with seed, seed + 1 and seed + 2 (another head, order and dropout). The run that is best
on dev is kept, as in the paper; mean and deviation are those of the restarts of its learning rate. --submission answers
the test files with what was kept, zipped ready to upload. --train-examples 1000 learns from that many, the same ones
whatever the --seed (with --task all: from all of a task that has no more). --random-weights shows what pre-training is
worth. A killed run goes on where it was when the same command is given again. --output receives model/ (a kbert
directory), metrics.json, settings.json and, for several runs, a folder for each.
"""

import argparse
import functools
import gc
import json
import shutil
import statistics

from finetune_classifier import add_finetuning_flags, build, finetune
from flags import command, directory, inputs_of, plain_errors, positive_float, positive_int, settings_of
from submit_glue import submit

from kbert.files import read_json, write_directory
from kbert.locks import lock_directory, unlock_directory
from kbert.tasks.glue.tasks import GLUE_TASKS
from kbert.training.run_directory import METRICS, SETTINGS, open_run

AVERAGED = tuple(name for name in GLUE_TASKS if name != "WNLI")  # in the paper's Table 1


def rates(text: str) -> list[float]:
    """Numbers above 0 with commas between them, all different."""
    values = [positive_float(part) for part in text.split(",")]
    if len(set(values)) < len(values):
        raise argparse.ArgumentTypeError(f"expected different learning rates. Received: {text}")
    return values


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=[*GLUE_TASKS, "all"], required=True)
    parser.add_argument("--data", metavar="DIR", type=directory, required=True, help="the GLUE files")
    parser.add_argument(
        "--train-examples", metavar="N", type=positive_int, help="learn from that many, drawn at random"
    )
    parser.add_argument("--restarts", metavar="N", type=positive_int, default=1, help="(default: 1)")
    parser.add_argument("--submission", action="store_true", help="answer the test files and zip the answers")
    add_finetuning_flags(parser, learning_rate={"metavar": "X[,X…]", "type": rates, "default": "5e-5"})
    return parser.parse_args(argv)


def tasks_of(args):
    """The tasks to train; every file of theirs is there."""
    tasks = (
        [GLUE_TASKS[args.task]]
        if args.task != "all"
        else [task for task in GLUE_TASKS.values() if (args.data / task.name).is_dir()]
    )
    if not tasks:
        raise ValueError(f"{args.data}: expected folders of GLUE tasks. Received: none of {list(GLUE_TASKS)}")
    for task in tasks:
        for split in task.splits:
            task.path(args.data, split)
        for file in task.tests if args.submission else ():
            task.read_test(args.data, file)
    absent = [name for name in GLUE_TASKS if GLUE_TASKS[name] not in tasks]
    if absent and args.task == "all":
        print(f"{args.data} has no folder for {', '.join(absent)}: left out.")
    return tasks


def read_data(args, task):
    """Training texts, and the texts to evaluate on: {"": dev, "_mm": the other dev set of MNLI}"""
    train = task.read(args.data, "train")
    dev = {split.removeprefix("dev"): task.read(args.data, split) for split in task.dev_splits}
    for name, examples in {"train": train, **{f"dev{suffix}": one for suffix, one in dev.items()}}.items():
        if examples.skipped:
            print(f"{task.name}, {name}: {examples.skipped} rows without all their cells are left out")
    wanted = args.train_examples
    if wanted and (args.task != "all" or wanted < len(train)):
        train, _ = train.split(wanted)
    return train, dev


def read_by(args, tasks) -> dict:
    """What `open_run` is told of a run of these tasks: the files that it reads, and which recipe it is."""
    files = [task.path(args.data, split) for task in tasks for split in task.splits]
    return {"inputs": inputs_of(args, data=files), "recipe": "finetune_glue.py"}


def build_classifier(args, seed, task):
    """Pipeline and hardware for a task; a GLUE text is one window, whatever --init was trained with."""
    return build(args, seed, task.labels, task.pair, window_pooling=None)


class Classifiers:
    """Makes the classifier of each run; holds none but the first, which is built early so that errors show then.

    Attributes:
        hardware: the hardware of every run.
    """

    def __init__(self, args, task):
        self._first = (task.name, args.seed)
        self._pipeline, self.hardware = build_classifier(args, args.seed, task)

    def take(self, args, task, seed):
        """A pipeline that the caller alone holds: the first, once, for the task and the seed it was built for."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None and self._first == (task.name, seed):
            return pipeline
        del pipeline
        gc.collect()  # models are in cycles; the one before goes before the next is built
        return build_classifier(args, seed, task)[0]


def run_task(args, task, run, data, classifiers):
    """Every learning rate and restart of one task; the best stays as the model. Returns what metrics.json holds.

    `data`: what `read_data` gave; `classifiers`: makes the pipeline of each run.
    """
    each = [(rate, seed) for rate in args.learning_rate for seed in range(args.seed, args.seed + args.restarts)]
    if len(each) == 1:
        return train_once(args, task, run, data, classifiers, *each[0])
    scores = {}
    for rate, seed in each:
        path = run.path / folder(args, rate, seed)
        if (path / METRICS).exists():  # this run was taken up again after this restart had finished
            scores[rate, seed] = read_json(path / METRICS)
            continue
        settings = settings_of(args) | {"task": task.name, "learning_rate": rate, "seed": seed}
        restart = open_run(path, settings, hardware=classifiers.hardware, **read_by(args, [task]))
        one = scores[rate, seed] = train_once(args, task, restart, data, classifiers, rate, seed)
        print(f"{path.name}: " + ", ".join(f"{name} {one['dev'][name]:.4f}" for name in task.columns))
    scores = summary(scores, task.columns)
    best = run.path / folder(args, scores["learning_rate"], scores["best_seed"]) / "model"
    # The copy is the run's model, manifest and all: its own folder tells how it was made.
    run.finish(scores, lambda path, made_by: write_directory(path, functools.partial(copy, best)))
    return scores


def train_once(args, task, run, data, classifiers, rate, seed):
    """One fine-tuning."""
    train, dev = data
    args = argparse.Namespace(**vars(args) | {"task": task.name, "learning_rate": rate})
    log_dir = args.log_dir and args.log_dir / run.path.relative_to(args.output)
    more_dev = {suffix: examples for suffix, examples in dev.items() if suffix}
    pipeline = classifiers.take(args, task, seed)
    return finetune(args, pipeline, classifiers.hardware, run, train, dev[""], task.metrics, seed, log_dir, more_dev)


def folder(args, rate, seed):
    """The folder of one of several runs."""
    return f"seed-{seed}" if len(args.learning_rate) == 1 else f"rate-{rate:g}-seed-{seed}"


def summary(scores, columns):
    """What metrics.json holds of several runs, {(rate, seed): scores}: the best run by the first metric, mean and
    deviation of its learning rate, and the same of every rate."""
    rate, seed = max(scores, key=lambda run: scores[run]["dev"][columns[0]])
    each = {r: [one["dev"] for (of, _), one in scores.items() if of == r] for r, _ in scores}
    grid = {r: {name: [one[name] for one in dev] for name in ("loss", *columns)} for r, dev in each.items()}
    means = {r: {name: statistics.mean(values) for name, values in dev.items()} for r, dev in grid.items()}
    deviations = {
        r: {name: statistics.stdev(values) if len(values) > 1 else None for name, values in dev.items()}
        for r, dev in grid.items()
    }
    best = scores[rate, seed]
    return {
        **{key: best[key] for key in ("constant_answer", "train_examples", "steps")},
        "dev": {"examples": best["dev"]["examples"]} | means[rate],
        "deviation": deviations[rate],
        "restarts": {str(s): one["dev"] for (r, s), one in scores.items() if r == rate},
        "grid": {f"{r:g}": {"mean": means[r], "deviation": deviations[r]} for r in means},
        "best": best["dev"],
        "best_seed": seed,
        "learning_rate": rate,
        "minutes": sum(one["minutes"] for one in scores.values()),
    }


def print_table(task, scores):
    """The paper's rows, a constant answer, and ours."""

    def row(name, values, deviations=None):
        cells = [f"{values[m]:.1f}" if m in values else "-" for m in task.columns]
        if deviations:
            cells = [f"{cell} ± {deviations[m]:.1f}" for cell, m in zip(cells, task.columns, strict=True)]
        print(f"{name:<42}" + "".join(f"{cell:>14}" for cell in cells))

    def percent(values):
        return {name: 100 * values[name] for name in task.columns}

    print(f"\n{task.name:<42}" + "".join(f"{name:>14}" for name in task.columns))
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


def average(scores):
    """The paper's average in percent: the first metric of every task but WNLI, MNLI on both dev sets. None if a task
    is missing."""
    if any(name not in scores for name in AVERAGED):
        return None
    columns = [(name, GLUE_TASKS[name].metrics[0]) for name in AVERAGED] + [("MNLI", "accuracy_mm")]
    return 100 * statistics.mean(scores[name]["dev"][column] for name, column in columns)


def train(args, tasks):
    """Trains one task or all; returns what metrics.json holds, and the hardware."""
    with plain_errors():
        done = () if args.overwrite else [task for task in tasks if (args.output / task.name / METRICS).exists()]
        data = {task.name: read_data(args, task) for task in tasks if task not in done}  # so that errors show now
        classifiers = Classifiers(args, tasks[0])
        hardware = classifiers.hardware
        run = open_run(args.output, settings_of(args), args.overwrite, hardware, **read_by(args, tasks))
    print(hardware.describe())
    if args.task == "all":
        return run_all(args, tasks, run, data, classifiers), hardware
    scores = run_task(args, tasks[0], run, data[args.task], classifiers)
    print_table(tasks[0], scores)
    print(f"{scores['minutes']:.1f} minutes; the model is in {run.path / 'model'}")
    return scores, hardware


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        tasks = tasks_of(args)
        trained = unsubmitted(args)
    scores, hardware = trained or train(args, tasks)
    if args.submission:
        models = {task.name: [args.output / (task.name if args.task == "all" else "") / "model"] for task in tasks}
        if hardware.is_chief:
            with plain_errors():
                lock_directory(args.output)
        with hardware.scope():
            submit(models, (), args.data, args.output / "submission", args.batch_size)
        unlock_directory(args.output)
    if args.json:
        print(json.dumps(scores))


def unsubmitted(args):
    """Metrics and hardware of a finished run of these settings that was killed before its submission was written."""
    from kbert.training.hardware import choose_hardware

    wanted, there = (args.output / name for name in ("submission/submission.zip", SETTINGS))
    if not args.submission or args.overwrite or wanted.exists() or not (args.output / METRICS).exists():
        return None
    if read_json(there) != json.loads(json.dumps(settings_of(args))):
        return None
    print(f"{args.output}: trained before; the test files are left to answer.")
    hardware = choose_hardware(args.strategy, args.precision, logical_cpus=args.logical_cpus)
    return read_json(args.output / METRICS), hardware


def run_all(args, tasks, run, data, classifiers):
    """Each task as a run in a folder of its own, and the paper's average."""
    scores = {}
    for task in tasks:
        path = run.path / task.name
        if (path / METRICS).exists():
            scores[task.name] = read_json(path / METRICS)
        else:
            settings = settings_of(args) | {"task": task.name}
            one = open_run(path, settings, hardware=classifiers.hardware, **read_by(args, [task]))
            scores[task.name] = run_task(args, task, one, data[task.name], classifiers)
        print_table(task, scores[task.name])
    result = {"tasks": scores, "average": average(scores), "minutes": sum(one["minutes"] for one in scores.values())}
    run.finish(result)
    if result["average"] is not None:
        print(f"\naverage without WNLI, dev: {result['average']:.1f}  (paper, test: BERT-base 79.6, BERT-large 82.1)")
    print(f"{result['minutes']:.1f} minutes; the models are in {run.path}")
    return result


def copy(source, target):
    """Copies what is in a directory to another."""
    shutil.copytree(source, target, dirs_exist_ok=True)


if __name__ == "__main__":
    command(main, resumes=True)
