"""Fine-tune BERT to pick one of several choices, as section 4.4 of the paper: each choice is read with the prompt as a
row of its own, one new vector scores the rows, and the softmax over the choices of a question is learned.

    python recipes/finetune_multiple_choice.py --format swag --train swag/train.csv --dev swag/val.csv \\
        --init runs/tiny --output runs/swag --batch-size 16 --learning-rate 2e-5
    python recipes/finetune_multiple_choice.py --format dream --train dream_train.json --dev dream_dev.json \\
        --init runs/tiny --output runs/dream
    python recipes/finetune_multiple_choice.py --train quiz.csv --prompt-column question --choice-columns a b c \\
        --label-column right --init runs/tiny --output runs/quiz

--format swag: the published csv (the paper: 3 epochs, 2e-5, batches of 16); dream: the published JSON, the question
stands before each of its answers. Otherwise --train is .csv, .tsv or .jsonl: --choice-columns names a column for each
choice (an empty cell is no choice), or one key of a .jsonl that holds lists; the label is the text of the right choice,
or its number from 0. Questions may have different numbers of choices. A row that is too long loses the end of the
longer of prompt and choice. Without --dev a tenth of --train is held out. A killed run goes on when the same command is
given again. --output receives the same as from finetune_classifier.py.
"""

import argparse
import json

from finetune_classifier import add_finetuning_flags, build_task, finetune, hold_out
from flags import add_choice_flags, command, file, inputs_of, plain_errors, rate, settings_of

from kbert.training.run_directory import open_run


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", metavar="FILE", type=file, required=True, help="questions with their right choice")
    parser.add_argument("--dev", metavar="FILE", type=file, help="other questions, to evaluate on")
    parser.add_argument("--dev-share", metavar="X", type=rate, default=0.1,
                        help="held out of --train where there is no --dev (default: 0.1)")  # fmt: skip
    add_choice_flags(parser)
    parser.add_argument("--label-column", metavar="NAME", default="label",
                        help="column of the right choice (default: label)")  # fmt: skip
    add_finetuning_flags(parser)
    return parser.parse_args(argv)


def read(args, path):
    """The questions of one file."""
    from kbert.tasks.multiple_choice.readers import read_questions

    return read_questions(path, args.format, args.prompt_column, args.choice_columns, args.label_column)


def read_data(args):
    """The questions to learn from and to evaluate on."""
    train = read(args, args.train)
    return (train, read(args, args.dev)) if args.dev else hold_out(args, train)


def print_table(args, scores):
    """The paper's rows where there are some, a constant answer, and ours."""
    from kbert.tasks.multiple_choice.readers import PAPER_SWAG

    rows = {f"paper: {name}": value for name, value in PAPER_SWAG.items()} if args.format == "swag" else {}
    rows["always the same choice, dev"] = 100 * scores["constant_answer"]["accuracy"]
    rows[f"this run, dev ({scores['train_examples']:,} questions)"] = 100 * scores["dev"]["accuracy"]
    print(f"\n{'':<42}{'accuracy':>14}")
    for name, value in rows.items():
        print(f"{name:<42}{value:>14.1f}")


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        train, dev = read_data(args)
        pipeline, hardware = build_task(args, args.seed, "multiple_choice")
        run = open_run(
            args.output, settings_of(args), args.overwrite, hardware, inputs=inputs_of(args),
            recipe="finetune_multiple_choice.py",
        )  # fmt: skip
    print(hardware.describe())
    print(f"{len(train):,} questions to learn from, {len(dev):,} to evaluate on")
    scores = finetune(args, pipeline, hardware, run, train, dev, ("accuracy",), args.seed, args.log_dir)
    print_table(args, scores)
    print(f"{scores['minutes']:.1f} minutes; the model is in {run.path / 'model'}")
    if args.json:
        print(json.dumps(scores))


if __name__ == "__main__":
    command(main, resumes=True)
