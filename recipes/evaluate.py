"""Score a fine-tuned model on labelled texts: a table of one's own, the dev set of a GLUE task, or questions.

    python recipes/evaluate.py --model runs/reviews --data test.csv --text-column text --label-column label
    python recipes/evaluate.py --model runs/sst2 --data glue --task SST-2
    python recipes/evaluate.py --model runs/dream --data dream_dev.json --format dream
    python recipes/evaluate.py --model runs/ner --data eng.testb
    python recipes/evaluate.py --model runs/squad-0 --model runs/squad-1 --data dev-v2.0.json

--model several times: an ensemble, whose scores are the means of the models' (of one vocabulary and preprocessing).
Questions: SQuAD's .json, or a table with the columns question, context and answer; scored by SQuAD's rules, with the
threshold for "no answer" that is stored with the model (of an ensemble the mean); --output receives predictions.json,
nbest.json and null_odds.json too.
Multiple choice: read as finetune_multiple_choice.py does, with the same flags.
Tagged words: CoNLL columns or .jsonl with spans, as for finetune_ner.py; scored as conlleval does; --output receives
predictions.txt too.

Prints the metrics; --json: as one JSON object on the last line; --output DIR: also to metrics.json there.
"""

import argparse
import json
import pathlib

import finetune_ner
import finetune_squad
from finetune_classifier import timed_evaluation
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

from kbert.tasks.glue.tasks import GLUE_TASKS


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="SOURCE", type=source, required=True, action="append",
                        help="kbert directory of a fine-tuned model, or the output of a recipe")  # fmt: skip
    parser.add_argument("--data", metavar="PATH", type=pathlib.Path, required=True,
                        help=".csv, .tsv or .jsonl with labels; with --task the GLUE directory; questions")  # fmt: skip
    parser.add_argument("--task", choices=GLUE_TASKS, help="GLUE task whose dev set to use")
    parser.add_argument("--text-column", metavar="NAME", help="column of the text")
    parser.add_argument("--text-pair-column", metavar="NAME", help="column of the second text, for pairs")
    parser.add_argument("--label-column", metavar="NAME", help="column of the label (of choices, default: label)")
    add_choice_flags(parser)
    add_tag_flags(parser)
    add_stored_flags(parser)
    parser.add_argument("--context", choices=("document", "sentence"), default="document",
                        help="what a tagger reads together (default: document)")  # fmt: skip
    parser.add_argument("--version", choices=("1.1", "2.0"),
                        help="whose rules score questions (default: 2.0 where some have no answer)")  # fmt: skip
    add_flags(parser, "output", "batch-size", "strategy", "logical-cpus", "precision", "json", "overwrite",
              output={"required": False, "help": "where metrics.json and settings.json go"})  # fmt: skip
    args = parser.parse_args(argv)
    columns = (args.text_column, args.label_column)
    if args.task and any((*columns, args.text_pair_column)):
        parser.error("--task knows its columns: leave --text-column, --text-pair-column and --label-column out")
    if args.text_column and not args.label_column:
        parser.error("a table needs --text-column and --label-column (or is this a GLUE directory? then --task)")
    return args


def read_data(args, labels):
    """The labelled texts and the names of their metrics. `labels`: the model's, None for regression."""
    from kbert.tasks.classification.labelled_text import from_table
    from kbert.tasks.classification.metrics import OWN_METRICS
    from kbert.tasks.table import read_table

    if args.task:
        task = GLUE_TASKS[args.task]
        if (task.labels and list(task.labels)) != labels:
            raise ValueError(
                f"{args.model[0]}: expected a model for {task.name}, labels {task.labels}. Received: {labels}"
            )
        return task.read(args.data, "dev"), task.metrics
    columns = {"text": args.text_column, "text_pair": args.text_pair_column, "label": args.label_column}
    table = read_table(args.data, [name for name in columns.values() if name])
    return from_table(table, labels=labels, **columns), OWN_METRICS[
        "regression" if labels is None else "classification"
    ]


def load(args):
    """The pipeline; of several models their mean."""
    import kbert
    from kbert.models.average import average_models
    from kbert.training.hardware import choose_hardware

    hardware = choose_hardware(args.strategy, args.precision, logical_cpus=args.logical_cpus)
    with hardware.scope():
        models = [kbert.load_pretrained(path) for path in args.model]
        for path, model in zip(args.model, models, strict=True):
            if model.task not in ("classification", "regression", "multiple_choice", "span", "tagging"):
                raise ValueError(
                    f"{path}: expected a fine-tuned classifier, regressor, tagger or model of questions. "
                    f"Received: a {model.task} model"
                )
        pipelines = [kbert.build_pipeline(model) for model in models]
        check_alike(args.model, pipelines)
        options = stored_options(args)
        thresholds = [t for model in models if (t := model.pretrained.settings.null_threshold) is not None]
        if thresholds and models[0].task == "span":
            options = {"null_threshold": sum(thresholds) / len(thresholds)} | options
        return kbert.build_pipeline(average_models(models), **options)


def check_alike(paths, pipelines):
    """Models of an ensemble must be given the same batches, and mean the same by their outputs."""
    first = pipelines[0]
    for path, pipeline in zip(paths, pipelines, strict=True):
        ours, theirs = first.settings() | {"null_threshold": None}, pipeline.settings() | {"null_threshold": None}
        differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        if first.tokenizer.vocabulary != pipeline.tokenizer.vocabulary:
            differing.append("vocabulary")
        if differing:
            raise ValueError(
                f"{path}: expected the preprocessing and labels of {paths[0]}. Received: other {differing}"
            )


def check_columns(args, settings):
    """A classifier or regressor needs columns, as many texts as it was trained on."""
    if not args.task and not (args.text_column and args.label_column):
        raise ValueError("a table needs --text-column and --label-column (or is this a GLUE directory? then --task)")
    given = bool(args.text_pair_column) if not args.task else GLUE_TASKS[args.task].pair
    if given != settings.pair:
        kinds = {True: "pairs of texts", False: "single texts"}
        raise ValueError(f"{args.model[0]} was trained on {kinds[settings.pair]}. Received: {kinds[given]}")


def evaluate_texts(args, pipeline):
    """Function that gives the scores of a classifier or regressor; what can be wrong is found before it is called."""
    model, settings = pipeline.model, pipeline.model.pretrained.settings
    check_columns(args, settings)
    labels = settings.labels or [str(n) for n in range(model.num_labels)] if model.task == "classification" else None
    examples, metrics = read_data(args, labels)
    task = GLUE_TASKS[args.task] if args.task else None
    others = {split: task.read(args.data, split) for split in task.dev_splits[1:]} if task else {}  # MNLI's "dev_mm"

    def scores(run):
        result = timed_evaluation(args, pipeline, examples, metrics)
        for split, more in others.items():
            also = timed_evaluation(args, pipeline, more, metrics)
            result |= {name + split.removeprefix("dev"): also[name] for name in metrics}
        return result

    return scores


def evaluate_choices(args, pipeline):
    """The same of multiple choice."""
    from kbert.tasks.multiple_choice.readers import read_questions

    examples = read_questions(args.data, args.format, args.prompt_column, args.choice_columns, args.label_column)
    return lambda run: timed_evaluation(args, pipeline, examples, ("accuracy",))


def evaluate_spans(args, pipeline):
    """The same of a model of questions."""
    from kbert.tasks.span.readers import read_questions

    questions = read_questions(args.data)
    args.version = args.version or ("1.1" if questions.has_answer.all() else "2.0")

    def scores(run):
        result = finetune_squad.evaluate(args, pipeline, questions, pipeline.answers.null_threshold)
        if run:
            result.write(run.path)
        return result.scores

    return scores


def evaluate_tags(args, pipeline):
    """The same of a tagger."""
    from kbert.tasks.tagging.prediction_files import write_predictions
    from kbert.tasks.tagging.readers import read_tagged

    tagged = read_tagged(args.data, tag_column=args.tag_column, scheme=args.scheme)

    def scores(run):
        result, predicted = finetune_ner.evaluate(args, pipeline, tagged)
        if run:
            write_predictions(run.path / "predictions.txt", tagged, predicted)
        return result

    return scores


def read_by(args) -> dict:
    """The models, and the files that are scored: those of --task in the GLUE directory, else --data itself."""
    task = GLUE_TASKS[args.task] if args.task else None
    data = [task.path(args.data, split) for split in task.dev_splits] if task else args.data
    return inputs_of(args, model=args.model, data=data)


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.training.run_directory import open_run

        pipeline = load(args)
        of_task = {"multiple_choice": evaluate_choices, "span": evaluate_spans, "tagging": evaluate_tags}
        evaluation = of_task.get(pipeline.model.task, evaluate_texts)(args, pipeline)
        models = [str(path) for path in args.model]
        settings = settings_of(args, "model") | {"model": models[0] if len(models) == 1 else models}
        run = None
        if args.output:
            run = open_run(args.output, settings, args.overwrite, inputs=read_by(args), recipe="evaluate.py")
    scores = evaluation(run)
    types = {f"{name} {metric}": x for name, one in scores.get("types", {}).items() for metric, x in one.items()}
    for name, value in ({k: v for k, v in scores.items() if k != "types"} | types).items():
        print(f"{name}: {value}" if isinstance(value, int) else f"{name}: {value:.4f}")
    if run:
        run.finish(scores)
    if args.json:
        print(json.dumps(scores))


if __name__ == "__main__":
    command(main)
