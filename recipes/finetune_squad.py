"""Fine-tune BERT to answer questions with a span of a text, as in sections 4.2 and 4.3 of the paper.

    python recipes/finetune_squad.py --data squad --version 1.1 --init saved_models/kbert-tiny --output runs/squad \\
        --sequence-length 128 --learning-rate 3e-4 --epochs 6
    python recipes/finetune_squad.py --data squad --version 2.0 --init saved_models/kbert-tiny --output runs/squad2 \\
        --sequence-length 128 --learning-rate 3e-4 --epochs 6
    python recipes/finetune_squad.py --train questions.csv --init runs/squad2 --output runs/questions \\
        --sequence-length 128 --learning-rate 3e-4 --epochs 6

A start and an end vector are the only new weights; long texts are split into overlapping windows. Your own files are
SQuAD's JSON, or a .csv, .tsv or .jsonl with the columns question, context, answer (empty: no answer) and, if known,
answer_start. If some questions have no answer (2.0), the threshold for "no answer" is chosen on dev, stored with the
model and applied by predict.py. --init may be the output of another run of this recipe: for instance first TriviaQA
(convert_triviaqa.py), then SQuAD. The defaults are the paper's: 3 epochs and batches of 32 for 1.1, 2 epochs and
batches of 48 for 2.0. An epoch has as many windows as there are questions, as in the original. A killed run resumes
when the same command is given again. --output has predictions.json, nbest.json, null_odds.json and the same files as
that of finetune_classifier.py.
"""

from kbert import command_line as cli

EPOCHS = {"1.1": 3.0, "2.0": 2.0}
BATCH_SIZES = {"1.1": 32, "2.0": 48}


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    add = parser.add_argument
    add("--data", metavar="DIR", type=cli.existing_directory, help="directory of SQuAD's train-v….json and dev-v….json")
    add("--version", choices=EPOCHS, help="2.0: some questions have no answer (default: recognised from --train)")
    train = {"required": False, "help": "questions to train on, instead of --data"}
    dev = {"help": "with --train: questions to evaluate on"}
    share = {"help": "without --dev: share of the contexts that is held out to evaluate on"}
    windows = ("doc-stride", "max-query-length", "max-answer-length", "n-best")
    cli.add_flags(parser, "train", "dev", "dev-share", *windows, train=train, dev=dev, dev_share=share)
    cli.add_finetuning_flags(
        parser,
        epochs={"default": None, "help": "passes over the questions (default: 3, for 2.0: 2)"},
        sequence_length={"default": 384, "help": "tokens of a question with a window of its context"},
        batch_size={"default": None, "help": "windows per update, over all replicas (default: 32, for 2.0: 48)"},
    )
    args = parser.parse_args(argv)
    if bool(args.data) == bool(args.train) or (args.data and args.dev):
        parser.error("give --data and --version, or --train (and --dev)")
    if args.data and not args.version:
        parser.error("--data needs --version: 1.1 or 2.0")
    if args.data:
        args.train, args.dev = (args.data / f"{split}-v{args.version}.json" for split in ("train", "dev"))
        if missing := " and ".join(path.name for path in (args.train, args.dev) if not path.is_file()):
            parser.error(f"--data {args.data} lacks {missing}. --train FILE (and --dev FILE) takes others")
    return args


def read(args):
    """The task and its questions; completes the settings that depend on the version."""
    import kbert

    limits = args.doc_stride, args.max_query_length, args.max_answer_length, args.n_best
    task = kbert.tasks.SpanExtraction(args.version, *limits)
    train, dev = cli.read_train_and_dev(args, task)
    args.version = task.version_of(train)
    args.epochs = args.epochs or EPOCHS[args.version]
    args.batch_size = args.batch_size or BATCH_SIZES[args.version]
    return task, train, dev


def main(argv=None):
    args = parse_arguments(argv)
    run = cli.run_finetuning(args, "finetune_squad.py", read)
    if run is None:
        return
    from kbert.tasks.span.table import describe_scores

    print(describe_scores(run.metrics, args.version, with_paper=bool(args.data)))
    print(f"{run.metrics['real_tokens_per_second'] or 0:,.0f} real tokens/s in training")
    cli.report_finetuning(args, run.metrics)


if __name__ == "__main__":
    cli.run_program(main, resumes=True)
