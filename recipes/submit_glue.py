"""Answer the GLUE test files, as the server at gluebenchmark.com takes them.

    python recipes/submit_glue.py --data glue --runs runs/glue --output runs/submission
    python recipes/submit_glue.py --data glue --model CoLA=runs/cola --model MNLI=runs/mnli --constant WNLI \\
        --output runs/submission

--runs: the output of finetune_glue.py --task all, with a folder for each task. --model TASK=DIR: the model of one task;
several models of a task answer together, by the mean of their probabilities. MNLI's model also answers the diagnostic
set, AX. --constant TASK: the most frequent label of the training file instead of a model, as the paper did for WNLI.
--output receives a .tsv for each test file and submission.zip, ready to upload.
"""

import argparse
import pathlib

from flags import add_flags, command, directory, inputs_of, plain_errors, settings_of, source

from kbert.tasks.glue.tasks import GLUE_TASKS


def task_model(text: str):
    """TASK=DIR"""
    task, equals, path = text.partition("=")
    if not equals or task not in GLUE_TASKS:
        raise argparse.ArgumentTypeError(f"expected TASK=DIR, TASK one of {list(GLUE_TASKS)}. Received: {text!r}")
    return task, source(path)


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DIR", type=directory, required=True, help="the GLUE files")
    parser.add_argument("--runs", metavar="DIR", type=directory, help="output of finetune_glue.py --task all")
    parser.add_argument("--model", metavar="TASK=DIR", type=task_model, action="append", default=[],
                        help="a fine-tuned model; repeat it for other tasks, and for ensembles")  # fmt: skip
    parser.add_argument("--constant", metavar="TASK", choices=GLUE_TASKS, action="append", default=[],
                        help="answer with the most frequent label; can be repeated")  # fmt: skip
    add_flags(parser, "output", "batch-size", "strategy", "logical-cpus", "precision", "overwrite",
              output={"help": "where the files go"}, batch_size={"help": "texts a forward pass"})  # fmt: skip
    args = parser.parse_args(argv)
    if not (args.runs or args.model or args.constant):
        parser.error("nothing to answer with: give --runs, --model or --constant")
    return args


def models_of(args) -> dict[str, list[pathlib.Path]]:
    """{task: directories of its models}"""
    models = {}
    if args.runs:
        models = {name: [args.runs / name / "model"] for name in GLUE_TASKS if (args.runs / name / "model").is_dir()}
    for task, path in args.model:
        models.setdefault(task, []).append(path)
    if twice := sorted(set(models) & set(args.constant)):
        raise ValueError(f"expected a model or --constant for a task. Received: both for {twice}")
    if not models and not args.constant:
        raise ValueError(f"{args.runs}: expected folders of tasks with a model/ in them. Received: none")
    return models


def read_by(args, models) -> dict:
    """The models of the run, the test files that they answer and the training files of the constant answers."""
    tests = [GLUE_TASKS[task].test_path(args.data, file) for task in models for file in GLUE_TASKS[task].tests]
    for name in args.constant:
        task = GLUE_TASKS[name]
        tests += [task.path(args.data, "train"), *(task.test_path(args.data, file) for file in task.tests)]
    given = [path for _, path in args.model]
    runs = [path for paths in models.values() for path in paths if path not in given]
    return inputs_of(args, data=tests, model=given or None, runs=runs or None)


def load(path, task):
    """A pipeline whose labels are the task's."""
    import kbert

    model = kbert.load_pretrained(path)
    expected = "regression" if task.regression else "classification"
    labels = model.pretrained.settings.labels or [str(n) for n in range(getattr(model, "num_labels", 0))]
    if model.task != expected or (task.labels and list(task.labels) != labels):
        raise ValueError(f"{path}: expected a model for {task.name}, {expected} with labels {task.labels}. "
                         f"Received: {model.task} with labels {labels}")  # fmt: skip
    if model.pretrained.settings.pair != task.pair:
        raise ValueError(f"{path}: expected a model for {'pairs' if task.pair else 'single texts'}, as {task.name} has")
    if model.pretrained.settings.window_pooling:
        raise ValueError(f"{path}: expected a model of whole texts. Received: one trained with --window-pooling")
    return kbert.build_pipeline(model)


def submit(models, constant, data, output, batch_size):
    """Answers every test file of these tasks and writes the submission; prints what is still missing."""
    from kbert.tasks.glue.submission import answer_tests, constant_answers, write_submission

    answers = {}
    for name, paths in models.items():
        pipelines = [load(path, GLUE_TASKS[name]) for path in paths]
        answers |= answer_tests(pipelines, GLUE_TASKS[name], data, batch_size=batch_size)
    for name in constant:
        answers |= constant_answers(GLUE_TASKS[name], data)
    path, missing = write_submission(output, answers)
    for file, lines in answers.items():
        print(f"{file}.tsv: {len(lines):,} answers")
    print(f"Wrote {path}." + (f" The server also wants {', '.join(missing)}." if missing else " It is complete."))


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.training.hardware import choose_hardware
        from kbert.training.run_directory import open_run

        models = models_of(args)
        hardware = choose_hardware(args.strategy, args.precision, logical_cpus=args.logical_cpus)
        settings = settings_of(args) | {"model": [f"{task}={path}" for task, path in args.model]}
        run = open_run(args.output, settings, args.overwrite, inputs=read_by(args, models), recipe="submit_glue.py")
        with hardware.scope():
            submit(models, args.constant, args.data, run.path, args.batch_size)
        run.finish({})


if __name__ == "__main__":
    command(main)
