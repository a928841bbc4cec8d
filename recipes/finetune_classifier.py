"""Fine-tune BERT on your own table of labelled texts, as in section 3.2 and appendix A.3 of the paper: all weights are
trained, with one new layer on [CLS]; the learning rate rises over the first tenth of the steps and falls linearly to 0.

    python recipes/finetune_classifier.py --train reviews.csv --text-column text --label-column label \\
        --init google-bert/bert-base-uncased --output runs/reviews
    python recipes/finetune_classifier.py --train pairs.tsv --text-column a --text-pair-column b --label-column same \\
        --init saved_models/kbert-tiny --output runs/pairs --learning-rate 3e-4 --epochs 6 --dry-run

The table is a .csv, .tsv (without quoting) or .jsonl file. With --regression, labels are numbers. With
--label-separator '|', a text can have any number of labels, such as funny|sad. With --window-pooling, long texts are
split into windows, and the answers to the windows of a text are averaged (or the highest is taken). With --class-weight
balanced, rare labels count as much as frequent ones. After each epoch the model is evaluated on --dev, and the weights
that are best by the first of its metrics (--metrics) are kept. The paper chooses on dev among batches of 16 and 32,
learning rates of 5e-5, 3e-5 and 2e-5, and 2, 3 and 4 epochs. A killed run resumes when the same command is given again.
In --output there are model/ (a kbert directory, for predict.py, evaluate.py and export.py), metrics.json,
settings.json, inputs.json (hashes of what was read), history.jsonl, evaluations.jsonl and logs/ (TensorBoard).
"""

from kbert import command_line as cli


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    cli.add_example_flags(parser, "table of labelled texts")
    parser.add_argument("--regression", action="store_true", help="labels are numbers (squared error)")
    needed, pooling = {"default": None, "required": True}, "split long texts into windows, and pool the answers to them"
    cli.add_flags(
        parser,
        *("text-column", "text-pair-column", "label-column", "label-separator"),
        *("metrics", "class-weight", "window-pooling", "doc-stride"),
        text_column=needed,
        label_column=needed,
        window_pooling={"choices": ("mean", "max"), "help": f"{pooling} (default: truncate long texts)"},
        doc_stride={"help": "with --window-pooling: tokens between the starts of two windows"},
    )
    cli.add_finetuning_flags(parser)
    args = parser.parse_args(argv)
    if args.window_pooling and args.text_pair_column:
        parser.error("--window-pooling is for single texts and cannot be combined with --text-pair-column")
    if args.label_separator is not None and args.regression:
        parser.error("--label-separator cannot be combined with --regression")
    return args


def read(args):
    """The task and its examples."""
    import kbert

    windows = cli.given(args, "window_pooling", "doc_stride")
    task_class = kbert.tasks.Regression if args.regression else kbert.tasks.Classification
    task = task_class(**cli.task_options(args), **windows)
    return task, *cli.read_train_and_dev(args, task)


def main(argv=None):
    args = parse_arguments(argv)
    run = cli.run_finetuning(args, "finetune_classifier.py", read)
    if run is None:
        return
    for name, value in run.metrics["constant_answer"].items():
        print(f"{name}: {run.metrics['dev'][name]:.4f}  (constant answer: {value:.4f})")
    cli.report_finetuning(args, run.metrics)


if __name__ == "__main__":
    cli.run_program(main, resumes=True)
