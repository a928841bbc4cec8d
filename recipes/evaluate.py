"""Evaluate a fine-tuned model on labelled examples: your own table, the dev set of a GLUE task, or questions.

    python recipes/evaluate.py --model runs/reviews --data test.csv
    python recipes/evaluate.py --model runs/reviews --data others.csv --text-column review --label-column stars
    python recipes/evaluate.py --model runs/sst2 --data glue --task SST-2
    python recipes/evaluate.py --model runs/dream --data dream_dev.json
    python recipes/evaluate.py --model runs/ner --data eng.testb
    python recipes/evaluate.py --model runs/squad-0 --model runs/squad-1 --data dev-v2.0.json

Columns and formats that no flag names are those that the (first) model was trained on. Several --model form an
ensemble, which averages the outputs of the models; they must have the same vocabulary and preprocessing. Questions come
from SQuAD's .json, or from a table with the columns question, context and answer, and are scored by SQuAD's rules with
the threshold for "no answer" that is stored with the model (for an ensemble, the mean). Entities are scored as by
conlleval. The metrics are printed, with --json as one JSON object on the last line. With --output DIR, metrics.json
and, for questions and tagged words, the official prediction files are written as well.
"""

import json

from kbert import command_line as cli
from kbert.command_line.flag_table import CHOICE_FORMAT, MACHINE
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, glue_name


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    model = {"action": "append", "help": "the fine-tuned model; can be repeated"}
    data = {"help": "labelled examples; with --task: the GLUE files"}
    cli.add_flags(parser, "model", "data", model=model, data=data)
    parser.add_argument("--task", type=glue_name, choices=GLUE_TASKS, help="the GLUE task whose dev set to use")
    columns = ("text-column", "text-pair-column", "label-column", "label-separator", "prompt-column", "choice-columns")
    cli.add_trained_flags(parser, *columns, "format", "tag-column", "scheme", "context", format=CHOICE_FORMAT)
    metrics = {"help": "the metrics (default: the task's own)"}
    cli.add_flags(parser, "metrics", "window-pooling", "null-threshold", metrics=metrics)
    version = "SQuAD version of the rules (default: recognised from the questions)"
    parser.add_argument("--version", choices=("1.1", "2.0"), help=version)
    output = {"required": False, "help": "directory for metrics.json, settings.json and predictions"}
    size = {"help": "examples per batch"}
    cli.add_flags(parser, "output", "batch-size", *MACHINE, "json", "overwrite", output=output, batch_size=size)
    args = parser.parse_args(argv)
    if args.task and cli.task_options(args):
        parser.error("--task reads the files of GLUE: do not give flags for columns, formats, versions or metrics")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
        from kbert.finetuning.evaluate import check_examples, describe_scores, evaluate_dev_sets, load_ensemble
        from kbert.training.hardware import choose_hardware
        from kbert.training.run_directory import open_run

        with choose_hardware(args.strategy, args.precision, logical_cpus=args.logical_cpus).scope():
            pipeline = load_ensemble(args.model, **cli.stored_options(args))
        task, dev_sets = cli.read_as_trained(args, pipeline.model.task)
        for examples in dev_sets.values():  # before the work of predicting
            check_examples(pipeline, task, examples)
        if args.output:
            inputs = cli.inputs_of(args, data=[one.path for one in dev_sets.values()])
            run = open_run(args.output, cli.settings_of(args), args.overwrite, inputs=inputs, recipe="evaluate.py")
    result = evaluate_dev_sets(pipeline, task, dev_sets, args.batch_size)
    print(describe_scores(result.scores))
    if args.output:
        if result.write:
            result.write(run.path)
        run.finish(result.scores)
    if args.json:
        print(json.dumps(result.scores))


if __name__ == "__main__":
    cli.run_program(main)
