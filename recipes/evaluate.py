"""Score a fine-tuned model on labelled examples: your own table, the dev set of a GLUE task, or questions.

    python recipes/evaluate.py --model runs/reviews --data test.csv --text-column text --label-column label
    python recipes/evaluate.py --model runs/sst2 --data glue --task SST-2
    python recipes/evaluate.py --model runs/dream --data dream_dev.json --format dream
    python recipes/evaluate.py --model runs/ner --data eng.testb
    python recipes/evaluate.py --model runs/squad-0 --model runs/squad-1 --data dev-v2.0.json

--model several times: an ensemble, which averages the outputs of the models (with the same vocabulary and
preprocessing). Questions: SQuAD's .json, or a table with the columns question, context and answer, scored by SQuAD's
rules with the threshold for "no answer" that is stored with the model (for an ensemble, the mean). Multiple choice and
tagged words are read as in the recipe that trained the model, with the same flags; entities are scored as by conlleval.
Prints the metrics; --json: as one JSON object on the last line; --output DIR: also writes metrics.json, and the
official prediction files of questions and tagged words.
"""

import argparse
import json
import pathlib

from flags import (
    add_choice_flags,
    add_flags,
    add_stored_flags,
    add_tag_flags,
    command,
    inputs_of,
    plain_errors,
    settings_of,
    source,
    stored_options,
)

from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", metavar="SOURCE", type=source, required=True, action="append", help="of a fine-tuned model")
    add(
        "--data", metavar="PATH", type=pathlib.Path, required=True, help="labelled examples; with --task the GLUE files"
    )
    add("--task", choices=GLUE_TASKS, help="GLUE task whose dev set to use")
    add("--text-column", metavar="NAME", help="column of the text")
    add("--text-pair-column", metavar="NAME", help="column of the second text, for pairs")
    add("--label-column", metavar="NAME", help="column of the label (of choices, default: label)")
    add_choice_flags(parser)
    add_tag_flags(parser)
    add_stored_flags(parser)
    add("--context", choices=("document", "sentence"), default="document", help="of a tagger (default: document)")
    add("--version", choices=("1.1", "2.0"), help="whose rules score questions (default: as the questions have it)")
    output = {"required": False, "help": "where metrics.json, settings.json and predictions go"}
    add_flags(
        parser, "output", "batch-size", "strategy", "logical-cpus", "precision", "json", "overwrite", output=output
    )
    args = parser.parse_args(argv)
    if args.task and any((args.text_column, args.label_column, args.text_pair_column)):
        parser.error("--task knows its columns: do not give --text-column, --text-pair-column or --label-column")
    if args.text_column and not args.label_column:
        parser.error("a table needs --text-column and --label-column (or is this a GLUE directory? then --task)")
    return args


def task_of(args, word):
    """The task object for a model of this task."""
    import kbert

    if word == "span":
        return kbert.tasks.SpanExtraction(args.version)
    if word == "tagging":
        return kbert.tasks.Tagging(args.scheme, args.tag_column, args.context)
    if word == "multiple_choice":
        columns = args.prompt_column, tuple(args.choice_columns), args.label_column or "label"
        return kbert.tasks.MultipleChoice(args.format, *columns)
    if args.task:
        return kbert.tasks.glue(args.task)
    if not args.text_column:
        raise ValueError("a table needs --text-column and --label-column (or is this a GLUE directory? then --task)")
    task = kbert.tasks.Regression if word == "regression" else kbert.tasks.Classification
    return task(args.text_column, args.label_column, args.text_pair_column)


def read(args, pipeline):
    """The task, its examples by the ending of their metrics ("_mm" of MNLI), and the files that they are in."""
    from kbert.tasks.evaluate import check_examples
    from kbert.tasks.glue_benchmark.submission import check_pipeline

    task, paths = task_of(args, pipeline.model.task), {"": args.data}
    if args.task:
        definition = GLUE_TASKS[args.task]
        check_pipeline(args.model[0], pipeline, definition)
        paths = {split.removeprefix("dev"): definition.path(args.data, split) for split in definition.dev_splits}
    examples = {suffix: task.read(path) for suffix, path in paths.items()}
    for one in examples.values():  # before the work of predicting
        check_examples(pipeline, task, one)
    return task, examples, list(paths.values())


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.tasks.evaluate import evaluate, load_ensemble
        from kbert.training.hardware import choose_hardware
        from kbert.training.run_directory import open_run

        with choose_hardware(args.strategy, args.precision, logical_cpus=args.logical_cpus).scope():
            pipeline = load_ensemble(args.model, **stored_options(args))
        task, examples, files = read(args, pipeline)
        run, models = None, [str(path) for path in args.model]
        if args.output:
            settings = settings_of(args, "model") | {"model": models[0] if len(models) == 1 else models}
            inputs = inputs_of(args, model=args.model, data=files)
            run = open_run(args.output, settings, args.overwrite, inputs=inputs, recipe="evaluate.py")
    scores, result = evaluate(pipeline, task, examples.pop(""), args.batch_size, return_predictions=True)
    for suffix, others in examples.items():
        more = evaluate(pipeline, task, others, args.batch_size)
        scores |= {name + suffix: more[name] for name in task.metrics}
    types = {f"{name} {metric}": x for name, one in scores.get("types", {}).items() for metric, x in one.items()}
    for name, value in ({k: v for k, v in scores.items() if k != "types"} | types).items():
        print(f"{name}: {value}" if isinstance(value, int) else f"{name}: {value:.4f}")
    if run:
        if result.write:
            result.write(run.path)
        run.finish(scores)
    if args.json:
        print(json.dumps(scores))


if __name__ == "__main__":
    command(main)
