"""Answer the GLUE test files, in the format of the server at gluebenchmark.com.

    python recipes/submit_glue.py --data glue --runs runs/glue --output runs/submission
    python recipes/submit_glue.py --data glue --model CoLA=runs/cola --model MNLI=runs/mnli --constant WNLI \\
        --output runs/submission

--runs is the output of finetune_glue.py --task all, with a folder for each task. --model TASK=DIR names the model of
one task; several models of a task form an ensemble, which averages their probabilities. MNLI's model also answers the
diagnostic set, AX. --constant TASK answers with the most frequent label of the training file instead of a model, for
instance for WNLI, which the paper skips. --output receives a .tsv for each test file, and submission.zip, ready to
upload.
"""

import argparse

from kbert import command_line as cli
from kbert.command_line.flag_table import MACHINE
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, glue_name


def task_model(text: str):
    """TASK=DIR"""
    task, equals, path = text.partition("=")
    task = glue_name(task)
    if not equals or task not in GLUE_TASKS:
        raise argparse.ArgumentTypeError(f"expected TASK=DIR, TASK one of {list(GLUE_TASKS)}. Received: {text!r}")
    return task, cli.model_source(path)


def parse_arguments(argv):
    parser, folder = cli.make_parser(__doc__), {"metavar": "DIR", "type": cli.existing_directory}
    parser.add_argument("--runs", **folder, help="output of finetune_glue.py --task all")
    add = parser.add_argument
    add("--model", metavar="TASK=DIR", type=task_model, action="append", default=[], help="a model; can be repeated")
    constant = "answer with the task's most frequent label; can be repeated"
    add("--constant", metavar="TASK", type=glue_name, choices=GLUE_TASKS, action="append", default=[], help=constant)
    own = {"data": folder | {"help": "directory of the GLUE files"}, "batch_size": {"help": "texts per batch"}}
    own["output"] = {"help": "directory for the files"}
    cli.add_flags(parser, "data", "output", "batch-size", *MACHINE, "overwrite", **own)
    args = parser.parse_args(argv)
    if not (args.runs or args.model or args.constant):
        parser.error("give --runs, --model or --constant")
    return args


def read_by(args, models) -> dict:
    """The models of the run, the test files that they answer and the training files of the constant answers."""
    from kbert.tasks.glue_benchmark.submission import files_to_read

    given = [path for _, path in args.model]
    runs = [path for paths in models.values() for path in paths if path not in given]
    files = files_to_read(models, args.constant, args.data)
    return cli.inputs_of(args, data=files, model=given or None, runs=runs or None)


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
        from kbert.tasks.glue_benchmark.submission import collect_models, submit
        from kbert.training.hardware import choose_hardware
        from kbert.training.run_directory import open_run

        models = collect_models(args.runs, args.model, args.constant)
        hardware = choose_hardware(args.strategy, args.precision, logical_cpus=args.logical_cpus)
        settings = cli.settings_of(args) | {"model": [f"{task}={path}" for task, path in args.model]}
        run = open_run(args.output, settings, args.overwrite, inputs=read_by(args, models), recipe="submit_glue.py")
        with hardware.scope():
            print(submit(models, args.constant, args.data, run.path, args.batch_size))
        run.finish({})


if __name__ == "__main__":
    cli.run_program(main)
