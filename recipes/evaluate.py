"""Score a fine-tuned model on labelled texts: a table of one's own, or the dev set of a GLUE task.

    python recipes/evaluate.py --model runs/reviews --data test.csv --text-column text --label-column label
    python recipes/evaluate.py --model runs/sst2 --data glue --task SST-2

Prints the metrics; --json: as one JSON object on the last line; --output DIR: also to metrics.json there.
"""

import argparse
import json
import pathlib

from flags import add_flags, kbert_directory, plain_errors, settings_of

from kbert.tasks.glue import GLUE_TASKS


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="DIR", type=kbert_directory, required=True,
                        help="kbert directory of a fine-tuned model, or the output of a recipe")  # fmt: skip
    parser.add_argument("--data", metavar="PATH", type=pathlib.Path, required=True,
                        help=".csv, .tsv or .jsonl with labels; with --task the GLUE directory")  # fmt: skip
    parser.add_argument("--task", choices=GLUE_TASKS, help="GLUE task whose dev set to use")
    parser.add_argument("--text-column", metavar="NAME", help="column of the text")
    parser.add_argument("--text-pair-column", metavar="NAME", help="column of the second text, for pairs")
    parser.add_argument("--label-column", metavar="NAME", help="column of the label")
    add_flags(parser, "output", "batch-size", "strategy", "precision", "json", "overwrite",
              output={"required": False, "help": "where metrics.json and settings.json go"})  # fmt: skip
    args = parser.parse_args(argv)
    columns = (args.text_column, args.label_column)
    if args.task and any((*columns, args.text_pair_column)):
        parser.error("--task knows its columns: leave --text-column, --text-pair-column and --label-column out")
    if not args.task and not all(columns):
        parser.error("a table needs --text-column and --label-column (or is this a GLUE directory? then --task)")
    return args


def read_data(args, labels):
    """The labelled texts and the names of their metrics. `labels`: the model's, None for regression."""
    from kbert.tasks.labelled_text import from_table
    from kbert.tasks.metrics import OWN_METRICS
    from kbert.tasks.table import read_table

    if args.task:
        task = GLUE_TASKS[args.task]
        if (task.labels and list(task.labels)) != labels:
            raise ValueError(
                f"{args.model}: expected a model for {task.name}, labels {task.labels}. Received: {labels}"
            )
        return task.read(args.data, "dev"), task.metrics
    columns = {"text": args.text_column, "text_pair": args.text_pair_column, "label": args.label_column}
    table = read_table(args.data, [name for name in columns.values() if name])
    return from_table(table, labels=labels, **columns), OWN_METRICS[
        "regression" if labels is None else "classification"
    ]


def load(args):
    """The pipeline and its labels (None for regression)."""
    import kbert
    from kbert.training.hardware import choose_hardware

    hardware = choose_hardware(args.strategy, args.precision)
    with hardware.scope():
        model = kbert.load_pretrained(args.model)
        if model.task not in ("classification", "regression"):
            raise ValueError(
                f"{args.model}: expected a fine-tuned classifier or regressor. Received: a {model.task} model"
            )
        pipeline = kbert.build_pipeline(model)
    settings = model.pretrained.settings
    given = bool(args.text_pair_column) if not args.task else GLUE_TASKS[args.task].pair
    if given != settings.pair:
        kinds = {True: "pairs of texts", False: "single texts"}
        raise ValueError(f"{args.model} was trained on {kinds[settings.pair]}. Received: {kinds[given]}")
    if model.task == "regression":
        return pipeline, None
    return pipeline, settings.labels or [str(n) for n in range(model.num_labels)]


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.tasks.evaluation import evaluate
        from kbert.training.run_directory import open_run

        pipeline, labels = load(args)
        examples, metrics = read_data(args, labels)
        run = open_run(args.output, settings_of(args), args.overwrite) if args.output else None
    scores = evaluate(pipeline.model, pipeline.preprocessor, examples, metrics, batch_size=args.batch_size)
    for name, value in scores.items():
        print(f"{name}: {value}" if isinstance(value, int) else f"{name}: {value:.4f}")
    if run:
        run.finish(scores)
    if args.json:
        print(json.dumps(scores))


if __name__ == "__main__":
    main()
