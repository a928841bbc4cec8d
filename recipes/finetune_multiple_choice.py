"""Fine-tune BERT to pick one of several choices, as in section 4.4 of the paper: each choice is a separate row with the
prompt, one new vector scores the rows, and the loss is on the softmax over the choices of a question.

    python recipes/finetune_multiple_choice.py --format swag --train swag/train.csv --dev swag/val.csv \\
        --init saved_models/kbert-tiny --output runs/swag --batch-size 16 --learning-rate 3e-4 --epochs 6
    python recipes/finetune_multiple_choice.py --format dream --train dream_train.json --dev dream_dev.json \\
        --init saved_models/kbert-tiny --output runs/dream --learning-rate 3e-4 --epochs 6
    python recipes/finetune_multiple_choice.py --train quiz.csv --prompt-column question --choice-columns a b c \\
        --label-column right --init saved_models/kbert-tiny --output runs/quiz --learning-rate 3e-4 --epochs 6

--format swag reads the published csv (the paper: 3 epochs, 2e-5, batches of 16), --format dream the published JSON, in
which the question is put before each of its answers. Otherwise --train is a .csv, .tsv or .jsonl file: --choice-columns
names a column for each choice (an empty cell is not a choice), or one key of a .jsonl that holds lists; the label is
the text of the right choice, or its number from 0. Rows that are too long are truncated at the end of the longer of
prompt and choice. A killed run resumes when the same command is given again. --output has the same files as that of
finetune_classifier.py.
"""

from kbert import command_line as cli
from kbert.command_line.flag_table import CHOICE_FORMAT


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    cli.add_example_flags(parser, "questions with the right choice")
    right = {"help": "column of the right choice"}
    names = ("format", "prompt-column", "choice-columns", "label-column")
    cli.add_flags(parser, *names, format=CHOICE_FORMAT, label_column=right)
    cli.add_finetuning_flags(parser)
    return parser.parse_args(argv)


def read(args):
    """The task and its examples."""
    import kbert

    task = kbert.tasks.MultipleChoice(**cli.task_options(args))
    return task, *cli.read_train_and_dev(args, task)


def print_table(args, metrics):
    """Prints the paper's rows, if it has any, a constant answer, and ours."""
    from kbert.tasks.multiple_choice.readers import PAPER_SWAG

    rows = {f"paper: {name}": value for name, value in PAPER_SWAG.items()} if args.format == "swag" else {}
    rows["always the same choice, dev"] = 100 * metrics["constant_answer"]["accuracy"]
    rows[f"this run, dev ({metrics['train_examples']:,} questions)"] = 100 * metrics["dev"]["accuracy"]
    print(f"\n{'':<42}{'accuracy':>14}")
    for name, value in rows.items():
        print(f"{name:<42}{value:>14.1f}")


def main(argv=None):
    args = parse_arguments(argv)
    run = cli.run_finetuning(args, "finetune_multiple_choice.py", read)
    if run is None:
        return
    print_table(args, run.metrics)
    cli.report_finetuning(args, run.metrics)


if __name__ == "__main__":
    cli.run_program(main, resumes=True)
