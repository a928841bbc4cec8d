"""Fine-tune BERT on one's own table of labelled texts, as section 3.2 and appendix A.3 of the paper: every weight is
trained, with one new layer on [CLS]; the learning rate rises over the first tenth of the steps and falls linearly to 0.

    python recipes/finetune_classifier.py --train reviews.csv --text-column text --label-column label \\
        --init runs/tiny --output runs/reviews

The table is .csv, .tsv (without quoting) or .jsonl. --text-pair-column: pairs of texts; --regression: labels are
numbers; --window-pooling mean (or max): texts that do not fit are learnt window by window, and judged by the
mean of what is said of their windows. Without --dev a tenth of --train is held out, the same rows whatever the --seed.
The paper chooses on dev among batches of 16 and 32, learning rates of 5e-5, 3e-5 and 2e-5, and 2, 3 and 4 epochs. A
killed run resumes from its last checkpoint when the same command is given again, with the same inputs. --output
receives model/ (a kbert directory, for predict.py, evaluate.py and export.py), metrics.json, settings.json,
inputs.json (their hashes), history.jsonl, logs/ (TensorBoard) and, until the run is finished, checkpoints/.
"""

import argparse
import contextlib
import json
import time

from flags import add_flags, command, file, inputs_of, plain_errors, positive_int, rate, settings_of

WARMUP_SHARE = 0.1  # of the steps
LOG_EVERY = 50  # steps, about: the divisor of --checkpoint-every that is nearest


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", metavar="FILE", type=file, required=True, help="table of labelled texts")
    parser.add_argument("--dev", metavar="FILE", type=file, help="another table, to evaluate on")
    parser.add_argument("--dev-share", metavar="X", type=rate, default=0.1,
                        help="held out of --train where there is no --dev (default: 0.1)")  # fmt: skip
    parser.add_argument("--text-column", metavar="NAME", required=True, help="column of the text")
    parser.add_argument("--text-pair-column", metavar="NAME", help="column of the second text, for pairs")
    parser.add_argument("--label-column", metavar="NAME", required=True, help="column of the label")
    parser.add_argument("--regression", action="store_true", help="labels are numbers: learn them by squared error")
    parser.add_argument("--window-pooling", choices=("mean", "max"),
                        help="cut long texts into windows, pool what is said of each (default: truncate)")  # fmt: skip
    parser.add_argument("--doc-stride", metavar="N", type=positive_int, default=128,
                        help="with --window-pooling: tokens from one to the next (default: 128)")  # fmt: skip
    add_finetuning_flags(parser)
    args = parser.parse_args(argv)
    if args.window_pooling and args.text_pair_column:
        parser.error("--window-pooling are of single texts: leave --text-pair-column out")
    return args


def add_finetuning_flags(parser, **overrides):
    """The flags of every fine-tuning; `overrides` as for `add_flags`."""
    own = {"init": {"required": True}, "epochs": {"default": 3.0}, "learning_rate": {"default": 5e-5}}
    add_flags(
        parser, "init", "output", "epochs", "steps", "batch-size", "learning-rate", "sequence-length", "seed",
        **{name: own.get(name, {}) | overrides.get(name, {}) for name in own | overrides},
    )  # fmt: skip
    parser.add_argument("--dropout", metavar="X", type=rate, help="instead of the dropout rates of --init")
    parser.add_argument("--bias-correction", action="store_true",
                        help="Adam as published, with bias correction; BERT was trained without")  # fmt: skip
    parser.add_argument("--group-by-length", action="store_true",
                        help="batches of texts of like length: faster, but no longer drawn from all")  # fmt: skip
    parser.add_argument("--random-weights", action="store_true",
                        help="only architecture and vocabulary of --init: what is pre-training worth?")  # fmt: skip
    parser.add_argument("--checkpoint-every", metavar="STEPS", type=positive_int, default=200, help="(default: 200)")
    add_flags(parser, "strategy", "logical-cpus", "precision", "log-dir", "json", "overwrite")


def read_data(args):
    """The labelled texts for training and for evaluation, and the label list (None for regression)."""
    from kbert.tasks.classification.labelled_text import from_table
    from kbert.tasks.classification.labels import check_labels_given, learn_labels
    from kbert.tasks.table import read_table

    columns = {"text": args.text_column, "text_pair": args.text_pair_column, "label": args.label_column}
    wanted = [name for name in columns.values() if name]
    table = read_table(args.train, wanted)
    check_labels_given(table, args.label_column)
    labels = None if args.regression else learn_labels(table[args.label_column])
    train = from_table(table, labels=labels, **columns)
    if args.dev:
        return train, from_table(read_table(args.dev, wanted), labels=labels, **columns), labels
    return *hold_out(args, train), labels


def hold_out(args, train):
    """What is left to learn from, and --dev-share of the examples, the same ones whatever the seed."""
    count = max(1, round(args.dev_share * len(train)))
    if count >= len(train):
        raise ValueError(
            f"{args.train}: --dev-share {args.dev_share} leaves none of {len(train)} examples to learn from. "
            "Give a smaller share, or --dev"
        )
    dev, train = train.split(count)
    return train, dev


def build(args, seed, labels, pair, **settings):
    """The pipeline of a classifier (of a regressor where `labels` is None) and its hardware."""
    settings |= {} if labels is None else {"labels": list(labels), "num_labels": len(labels)}
    return build_task(args, seed, "regression" if labels is None else "classification", pair=pair, **settings)


def build_task(args, seed, task, **settings):
    """The pipeline to train, from strings to answers, and its hardware.

    `seed`: of new weights and dropout; `settings`: overrides of `kbert.load_pretrained`.
    """
    import keras

    import kbert
    from kbert.training.hardware import choose_hardware
    from kbert.weights.description import ModelDescription

    hardware = choose_hardware(args.strategy, args.precision, logical_cpus=args.logical_cpus)
    if args.dropout is not None:
        of_head = set(ModelDescription.argument_names(task)) & {"dropout"}  # that of answers as spans has none
        settings |= {name: args.dropout for name in (*of_head, "hidden_dropout", "attention_dropout")}
    keras.utils.set_random_seed(seed)
    with hardware.scope():
        model = kbert.load_pretrained(args.init, task, sequence_length=args.sequence_length, **settings)
        if args.random_weights:
            loaded, model = model, ModelDescription.of(model).build()
            model.pretrained = loaded.pretrained
        return kbert.build_pipeline(model), hardware


def finetune(args, pipeline, hardware, run, train, dev, metrics, seed, log_dir=None, more_dev=None):
    """Trains, evaluates and saves: one run of section 3.2. Returns what metrics.json holds.

    `more_dev`: {suffix: examples}, evaluated beside `dev`; their metrics have names with that suffix.
    """
    import kbert
    from kbert.tasks.classification.baseline import constant_baseline
    from kbert.tasks.classification.dataset import training_steps

    start = time.perf_counter()
    rows, tokens, make_dataset = training_data(args, pipeline, hardware, train, seed)
    steps = args.steps or training_steps(rows, args.batch_size, args.epochs)
    fit(args, pipeline.model, hardware, run, make_dataset, steps, tokens, log_dir)
    static = hardware.name == "tpu"
    scores = {
        "dev": timed_evaluation(args, pipeline, dev, metrics, static),
        "constant_answer": constant_baseline(train, dev, metrics),
        "train_examples": len(train), "steps": steps, "minutes": (time.perf_counter() - start) / 60,
    }  # fmt: skip
    for suffix, examples in (more_dev or {}).items():
        more = (
            timed_evaluation(args, pipeline, examples, metrics, static),
            constant_baseline(train, examples, metrics),
        )
        for of, values in zip((scores["dev"], scores["constant_answer"]), more, strict=True):
            of |= {name + suffix: values[name] for name in metrics}
    save = lambda path, made_by: kbert.save_pretrained(pipeline, path, made_by=made_by, overwrite=True)  # noqa: E731
    run.finish(scores, save)
    return scores


def fit(args, model, hardware, run, make_dataset, steps, tokens, log_dir=None):
    """Trains as the paper does, or goes on where it was; the logs of every window. `tokens`: real ones of a row."""
    import kbert
    from kbert.optim.schedule import WarmupLinearDecay
    from kbert.training.callbacks import ConsoleProgress, TensorBoardScalars
    from kbert.training.intervals import log_interval
    from kbert.training.resume import fit_steps

    schedule = WarmupLinearDecay(args.learning_rate, int(WARMUP_SHARE * steps), steps)
    with hardware.scope():
        optimizer = kbert.AdamW(schedule, bias_correction=args.bias_correction)
        model.compile(optimizer, jit_compile=hardware.jit_compile)
    window = log_interval(args.checkpoint_every, LOG_EVERY)
    return fit_steps(
        model, make_dataset, steps, run.path, window=window, checkpoint_every=args.checkpoint_every // window,
        callbacks=[ConsoleProgress(), TensorBoardScalars(log_dir or args.log_dir or run.path / "logs")],
        real_tokens=args.batch_size * tokens,
    )  # fmt: skip


def batch_settings(args, hardware, seed):
    """What the batches of every fine-tuning are a function of, beside the data and their number."""
    padding = "full" if hardware.name == "tpu" else "bucket" if hardware.jit_compile else "longest"
    return {
        "batch_size": args.batch_size, "seed": seed, "padding": padding, "group_by_length": args.group_by_length,
    }  # fmt: skip


def training_data(args, pipeline, hardware, train, seed):
    """Rows of an epoch (texts or windows), tokens of a row that are no padding, and `fit_steps`' make_dataset."""
    from kbert.tasks.classification.dataset import real_tokens, training_dataset
    from kbert.tasks.classification.documents import document_windows
    from kbert.tasks.span.dataset import window_dataset

    more = batch_settings(args, hardware, seed)
    num_labels = getattr(pipeline.model, "num_labels", None)
    if pipeline.answers.window_pooling is None:

        def whole_texts(start_step):
            return training_dataset(train, pipeline.preprocessor, start_step=start_step, num_labels=num_labels, **more)

        return len(train), real_tokens(train, pipeline.preprocessor), whole_texts
    store, labels = document_windows(train, pipeline.preprocessor, num_labels)
    print(f"{len(train):,} texts in {len(store):,} windows")
    tokens = float(store.lengths.mean())
    return len(store), tokens, lambda start_step: window_dataset(store, labels, start_step=start_step, **more)


def timed_evaluation(args, pipeline, examples, metrics, static=False):
    """The scores of the examples, of whole texts or of windows, and a line that says how fast it was."""
    from kbert.tasks.classification.dataset import real_tokens
    from kbert.tasks.classification.documents import evaluate_documents
    from kbert.tasks.classification.evaluation import evaluate

    size = {"batch_size": args.batch_size}
    with timed(len(examples), len(examples) * real_tokens(examples, pipeline.preprocessor)):
        if pipeline.answers.window_pooling is not None:
            return evaluate_documents(pipeline, examples, metrics, **size)
        return evaluate(pipeline.model, pipeline.preprocessor, examples, metrics, static=static, **size)


@contextlib.contextmanager
def timed(examples, tokens):
    """Says at the end how fast the examples were evaluated, whose real tokens, those that are no padding, are given."""
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    print(f"{examples:,} examples evaluated in {seconds:.1f} s: {tokens / seconds:,.0f} real tokens/s", flush=True)


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.tasks.classification.metrics import OWN_METRICS
        from kbert.training.run_directory import open_run

        train, dev, labels = read_data(args)
        windows = {"window_pooling": args.window_pooling, "doc_stride": args.doc_stride}
        pipeline, hardware = build(args, args.seed, labels, train.pair, **windows)
        run = open_run(
            args.output, settings_of(args), args.overwrite, hardware, inputs=inputs_of(args),
            recipe="finetune_classifier.py",
        )  # fmt: skip
    print(hardware.describe())
    print(f"{len(train):,} examples to learn from, {len(dev):,} to evaluate on; labels: {labels or 'numbers'}")
    metrics = OWN_METRICS[pipeline.model.task]
    scores = finetune(args, pipeline, hardware, run, train, dev, metrics, args.seed, args.log_dir)
    for name in metrics:
        print(f"{name}: {scores['dev'][name]:.4f}  (a constant answer: {scores['constant_answer'][name]:.4f})")
    print(f"{scores['minutes']:.1f} minutes; the model is in {run.path / 'model'}")
    if args.json:
        print(json.dumps(scores))


if __name__ == "__main__":
    command(main, resumes=True)
