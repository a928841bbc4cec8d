"""Fine-tune BERT to find named entities, as section 5.3 of the paper: a linear layer on words' first tokens, no CRF.

    python recipes/finetune_ner.py --train eng.train --dev eng.testa --init runs/tiny --output runs/ner

The files are in CoNLL columns (word first, tag last or in --tag-column; IOB1, IOB2, BIOES and BILOU are recognised), or
.jsonl with lines like {"text": "Peter left Paris.", "spans": [{"start": 0, "end": 5, "type": "PER"}]}. The tags are
those of --train. Without --dev a tenth of the documents of --train is held out.

Words are read with as much of their document as a window of --sequence-length tokens holds (the paper's 92.4 needs it):
windows overlap, and a word's tag is that of the window in which it has most context. --context sentence reads sentences
alone. --output receives model/ (a kbert directory, for predict.py, evaluate.py and export.py), predictions.txt (dev, in
CoNLL columns: word, tag, predicted tag), metrics.json, settings.json, history.jsonl and logs/. A killed run goes on
from its last checkpoint when the same command is given again.
"""

import argparse
import json
import time

from finetune_classifier import add_finetuning_flags, batch_settings, build_task, fit, timed
from flags import add_tag_flags, command, file, inputs_of, plain_errors, positive_int, rate, settings_of

PAPER = {  # Table 7, fine-tuning: F1 on CoNLL-2003's dev and test
    "ELMo": (95.7, 92.2), "BERT-base, fine-tuned": (96.4, 92.4), "BERT-large, fine-tuned": (96.6, 92.8),
}  # fmt: skip


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_tagging_flags(parser)
    parser.add_argument("--context", choices=("document", "sentence"), default="document",
                        help="what is read together (default: document)")  # fmt: skip
    parser.add_argument("--doc-stride", metavar="N", type=positive_int,
                        help="tokens from one window to the next (default, and most: half a window)")  # fmt: skip
    add_finetuning_flags(parser)
    args = parser.parse_args(argv)
    if args.doc_stride and args.doc_stride > half_window(args):
        parser.error(f"--doc-stride is at most half a window, {half_window(args)} of {args.sequence_length} tokens")
    return args


def half_window(args):
    """Tokens of half a window, without [CLS] and [SEP]."""
    return max(1, (args.sequence_length - 2) // 2)


def add_tagging_flags(parser):
    """The flags that say what the tagged files are."""
    parser.add_argument("--train", metavar="FILE", type=file, required=True, help="tagged words")
    parser.add_argument("--dev", metavar="FILE", type=file, help="others, to evaluate on")
    parser.add_argument("--dev-share", metavar="X", type=rate, default=0.1,
                        help="documents held out of --train where there is no --dev (default: 0.1)")  # fmt: skip
    parser.add_argument("--train-sentences", metavar="N", type=positive_int, help="learn from the first N alone")
    add_tag_flags(parser)


def read_data(args):
    """The tagged text to learn from, that to evaluate on, and the tags."""
    from kbert.tasks.tagging.readers import read_tagged
    from kbert.tasks.tagging.tagged_text import check_tags, learn_tags

    train = read_tagged(args.train, tag_column=args.tag_column, scheme=args.scheme)
    tags = learn_tags(train)  # before some are held out: a rare type may be in these alone
    if args.dev:
        dev = read_tagged(args.dev, tag_column=args.tag_column, scheme=args.scheme)
        check_tags(dev, tags)
    else:
        dev, train = train.split(args.dev_share)
    if args.train_sentences:
        train = train.take(args.train_sentences)
    return train, dev, tags


def finetune(args, pipeline, hardware, run, train, dev):
    """Trains, evaluates and saves. Returns what metrics.json holds."""
    import kbert
    from kbert.tasks.classification.dataset import training_steps
    from kbert.tasks.tagging.dataset import TaggedWindows, tagging_dataset
    from kbert.tasks.tagging.prediction_files import write_predictions

    preprocessor, start = pipeline.preprocessor, time.perf_counter()
    windows = TaggedWindows.of(train, preprocessor, pipeline.answers.labels, args.context)
    steps = args.steps or training_steps(len(windows), args.batch_size, args.epochs)
    print(f"{len(windows):,} windows of {preprocessor.sequence_length} tokens; {steps:,} steps", flush=True)
    batches = batch_settings(args, hardware, args.seed)

    def make_dataset(start_step):
        return tagging_dataset(windows, start_step=start_step, **batches)

    fit(args, pipeline.model, hardware, run, make_dataset, steps, windows.real_tokens)
    scores, predicted = evaluate(args, pipeline, dev)
    metrics = {
        "dev": scores, "train_sentences": len(train), "train_windows": len(windows), "steps": steps,
        "minutes": (time.perf_counter() - start) / 60,
    }  # fmt: skip

    def save(path, made_by):
        kbert.save_pretrained(pipeline, path, made_by=made_by, overwrite=True)
        write_predictions(run.path / "predictions.txt", dev, predicted)

    run.finish(metrics, save)
    return metrics


def evaluate(args, pipeline, tagged):
    """`evaluate_tagger`, and a line that says how fast it was."""
    from kbert.tasks.tagging.dataset import TaggedWindows
    from kbert.tasks.tagging.evaluation import evaluate_tagger

    tags = list(pipeline.answers.labels)
    windows = TaggedWindows.of(tagged, pipeline.preprocessor, tags, args.context)
    with timed(len(tagged), len(windows) * windows.real_tokens):
        return evaluate_tagger(
            pipeline.model, pipeline.preprocessor, tagged, tags, context=args.context, batch_size=args.batch_size
        )


def print_scores(metrics):
    """F1 in percent, of each type and of all, under the paper's figures."""
    dev = metrics["dev"]
    print(f"\n{'':<40}{'precision':>10}{'recall':>8}{'F1':>8}{'entities':>10}")
    for name, one in [*dev["types"].items(), ("all", dev)]:
        shares = [100 * one[m] for m in ("precision", "recall", "f1")]
        print(f"{name:<40}{shares[0]:>10.1f}{shares[1]:>8.1f}{shares[2]:>8.1f}{one['entities']:>10,}")
    print(f"\n{'CoNLL-2003, F1':<40}{'dev':>10}{'test':>8}")
    for name, (on_dev, on_test) in PAPER.items():
        print(f"{'paper: ' + name:<40}{on_dev:>10}{on_test:>8}")
    ours = f"this run ({metrics['train_sentences']:,} sentences)"
    print(f"{ours:<40}{100 * dev['f1']:>10.1f}{'-':>8}")


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.training.run_directory import open_run

        train, dev, tags = read_data(args)
        pipeline, hardware = build_task(
            args, args.seed, "tagging", labels=tags, num_labels=len(tags),
            doc_stride=args.doc_stride or half_window(args),
        )  # fmt: skip
        run = open_run(
            args.output, settings_of(args), args.overwrite, hardware, inputs=inputs_of(args), recipe="finetune_ner.py"
        )
    print(hardware.describe())
    print(f"{len(train):,} sentences to learn from, {len(dev):,} to evaluate on; tags: {' '.join(tags)}")
    metrics = finetune(args, pipeline, hardware, run, train, dev)
    print_scores(metrics)
    print(f"{metrics['minutes']:.1f} minutes; the model is in {run.path / 'model'}")
    if args.json:
        print(json.dumps(metrics))


if __name__ == "__main__":
    command(main, resumes=True)
