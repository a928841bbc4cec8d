"""Fine-tune BERT on a GLUE task, as section 4.1 of the paper: batches of 32, 3 epochs, the official metric on dev.

    python recipes/finetune_glue.py --task SST-2 --data glue --init runs/tiny --output runs/sst2

--data is the official download, with a folder for each task in it (or the task's own folder). --train-examples 1000
learns from that many, the same ones whatever the --seed. --restarts 3 trains with seed, seed + 1 and seed + 2 (another
head, order and dropout), reports mean and deviation, and keeps the best on dev, as the paper did for its large model on
the small tasks. --random-weights shows what pre-training is worth. A killed run goes on where it was when the same
command is given again. --output receives model/ (a kbert directory: the best restart), metrics.json, settings.json and,
for several restarts, a folder for each. SST-2's sentences are short: --sequence-length 64 is enough and twice as fast.
"""

import argparse
import json
import shutil
import statistics

from finetune_classifier import add_finetuning_flags, build, finetune
from flags import directory, plain_errors, positive_int, settings_of

from kbert.tasks.glue import GLUE_TASKS


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=GLUE_TASKS, required=True)
    parser.add_argument("--data", metavar="DIR", type=directory, required=True, help="the GLUE files")
    parser.add_argument(
        "--train-examples", metavar="N", type=positive_int, help="learn from that many, drawn at random"
    )
    parser.add_argument("--restarts", metavar="N", type=positive_int, default=1, help="(default: 1)")
    add_finetuning_flags(parser)
    return parser.parse_args(argv)


def read_data(args, task):
    train, dev = task.read(args.data, "train"), task.read(args.data, "dev")
    if args.train_examples:
        train, _ = train.split(args.train_examples)
    return train, dev


def restarts(args, task, train, dev, first, run):
    """One finished run for each seed, in a folder of its own; {seed: scores}"""
    from kbert.training.run_directory import METRICS, open_run

    scores = {}
    for seed in range(args.seed, args.seed + args.restarts):
        path = run.path / f"seed-{seed}"
        if (path / METRICS).exists():  # this run was taken up again after this restart had finished
            scores[seed] = json.loads((path / METRICS).read_text("utf-8"))
            continue
        pipeline, hardware = first if seed == args.seed else build(args, seed, task.labels, task.pair)
        restart = open_run(path, settings_of(args) | {"seed": seed})
        log_dir = args.log_dir and args.log_dir / path.name
        scores[seed] = finetune(args, pipeline, hardware, restart, train, dev, task.metrics, seed, log_dir)
        print(f"seed {seed}: " + ", ".join(f"{name} {scores[seed]['dev'][name]:.4f}" for name in task.metrics))
    return scores


def summary(scores, metrics):
    """What metrics.json holds of several restarts: mean, deviation and the best seed by the first metric."""
    dev = {name: [one["dev"][name] for one in scores.values()] for name in ("loss", *metrics)}
    first = next(iter(scores.values()))
    return {
        **{key: first[key] for key in ("constant_answer", "train_examples", "steps")},
        "dev": {"examples": first["dev"]["examples"]} | {name: statistics.mean(dev[name]) for name in dev},
        "deviation": {name: statistics.stdev(dev[name]) for name in dev},
        "restarts": {str(seed): one["dev"] for seed, one in scores.items()},
        "best_seed": max(scores, key=lambda seed: scores[seed]["dev"][metrics[0]]),
        "minutes": sum(one["minutes"] for one in scores.values()),
    }


def print_table(task, scores):
    """The paper's rows, a constant answer, and ours."""

    def row(name, values, deviations=None):
        cells = [f"{values[m]:.1f}" if m in values else "-" for m in task.metrics]
        cells = [
            c + (f" ± {deviations[m]:.1f}" if deviations else "") for c, m in zip(cells, task.metrics, strict=True)
        ]
        print(f"{name:<42}" + "".join(f"{cell:>14}" for cell in cells))

    def percent(values):
        return {name: 100 * value for name, value in values.items()}

    print(f"\n{task.name:<42}" + "".join(f"{name:>14}" for name in task.metrics))
    for name, values in task.paper.items():
        row(f"paper: {name}", values)
    row("a constant answer, dev", percent(scores["constant_answer"]))
    runs = len(scores.get("restarts", "1"))
    ours = f"this run, dev ({scores['train_examples']:,} examples" + (f", {runs} seeds)" if runs > 1 else ")")
    row(ours, percent(scores["dev"]), percent(scores["deviation"]) if runs > 1 else None)


def main(argv=None):
    args = parse_arguments(argv)
    task = GLUE_TASKS[args.task]
    with plain_errors():
        from kbert.training.run_directory import open_run

        train, dev = read_data(args, task)
        pipeline, hardware = build(args, args.seed, task.labels, task.pair)
        run = open_run(args.output, settings_of(args), args.overwrite)
    print(hardware.describe())
    if args.restarts == 1:
        scores = finetune(args, pipeline, hardware, run, train, dev, task.metrics, args.seed, args.log_dir)
    else:
        scores = summary(restarts(args, task, train, dev, (pipeline, hardware), run), task.metrics)
        copy(run.path / f"seed-{scores['best_seed']}" / "model", run.path / "model")
        run.finish(scores)
    print_table(task, scores)
    print(f"{scores['minutes']:.1f} minutes; the model is in {run.path / 'model'}")
    if args.json:
        print(json.dumps(scores))


def copy(source, target):
    """Copies a directory, whole or not at all."""
    partial = target.with_name(f".{target.name}.part")
    for old in (partial, target):
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(source, partial)
    partial.rename(target)


if __name__ == "__main__":
    main()
