"""Fine-tune BERT to find named entities, as in section 5.3 of the paper: a linear layer on words' first tokens, no CRF.

    python recipes/finetune_ner.py --train eng.train --dev eng.testa --init saved_models/kbert-tiny --output runs/ner \\
        --learning-rate 1e-3 --epochs 6

The files are in CoNLL columns (word first, tag last or in --tag-column; IOB1, IOB2, BIOES and BILOU are recognised), or
.jsonl with lines like {"text": "Peter left Paris.", "spans": [{"start": 0, "end": 5, "type": "PER"}]}. The tags are
those of --train. Without --dev a tenth of the documents of --train is held out.

Words are read with as much of their document as fits into a window of --sequence-length tokens, as for the paper's F1
of 92.4. Windows overlap, and a word's tag is that of the window in which it has most context. --context sentence reads
each sentence by itself. A killed run resumes when the same command is given again. --output has the same files as that
of finetune_classifier.py, and predictions.txt (dev, in CoNLL columns: word, tag, predicted tag).
"""

from kbert import command_line as cli


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    cli.add_example_flags(parser, "tagged words")
    cli.add_flags(parser, "tag-column", "scheme", "train-sentences")
    stride = "tokens between the starts of two windows, at most half a window (default: half a window)"
    cli.add_flags(parser, "context", "doc-stride", doc_stride={"default": None, "help": stride})
    cli.add_finetuning_flags(parser, sequence_length={"help": "tokens of a window; longer texts have several"})
    return parser.parse_args(argv)


def read(args):
    """The task and its examples."""
    import kbert

    task = kbert.tasks.Tagging(**cli.task_options(args), doc_stride=args.doc_stride)
    return task, *cli.read_train_and_dev(args, task)


def main(argv=None):
    args = parse_arguments(argv)
    run = cli.run_finetuning(args, "finetune_ner.py", read)
    if run is None:
        return
    from kbert.tasks.tagging.table import describe_scores

    print(f"\n{describe_scores(run.metrics)}")
    cli.report_finetuning(args, run.metrics)


if __name__ == "__main__":
    cli.run_program(main, resumes=True)
