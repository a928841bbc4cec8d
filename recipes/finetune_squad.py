"""Fine-tune BERT to answer questions by a span of a text, as sections 4.2 and 4.3 of the paper: a start and an end
vector are the only new weights; long texts are cut into overlapping windows.

    python recipes/finetune_squad.py --data squad --version 1.1 --init runs/tiny --output runs/squad
    python recipes/finetune_squad.py --data squad --version 2.0 --init runs/tiny --output runs/squad2
    python recipes/finetune_squad.py --train questions.csv --dev more.csv --init runs/tiny --output runs/questions

--data has train-v1.1.json and dev-v1.1.json (or 2.0) as downloaded. Files of one's own: the same JSON, or a .csv, .tsv
or .jsonl with the columns question, context, answer (empty: there is none) and, where known, answer_start. Where some
questions have no answer (2.0) the threshold for saying so is chosen on dev, stored with the model and applied by
predict.py. --init may be the output of another such run: first TriviaQA (convert_triviaqa.py), then SQuAD. The paper's
settings are the defaults: 1.1: 3 epochs, batches of 32; 2.0: 2 epochs, batches of 48. An epoch is, as in the original,
as many windows as there are questions. A killed run goes on where it was when the same command is given again. --output
receives model/ (a kbert directory), metrics.json, predictions.json, nbest.json, null_odds.json, settings.json,
history.jsonl, logs/ and, until the run is finished, checkpoints/.
"""

import argparse
import json
import pathlib
import time

from finetune_classifier import add_finetuning_flags, batch_settings, build_task, fit, timed
from flags import command, directory, file, inputs_of, plain_errors, positive_int, settings_of

EPOCHS = {"1.1": 3.0, "2.0": 2.0}
BATCH_SIZES = {"1.1": 32, "2.0": 48}


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DIR", type=directory, help="SQuAD's files, train-v….json and dev-v….json")
    parser.add_argument("--version", choices=EPOCHS,
                        help="2.0: some questions have no answer (default: as --train has it)")  # fmt: skip
    parser.add_argument("--train", metavar="FILE", type=file, help="questions to learn from, instead of --data")
    parser.add_argument("--dev", metavar="FILE", type=file, help="questions to evaluate on, instead of --data")
    parser.add_argument("--doc-stride", metavar="N", type=positive_int, default=128,
                        help="tokens from one window to the next (default: 128)")  # fmt: skip
    parser.add_argument("--max-query-length", metavar="N", type=positive_int, default=64,
                        help="tokens of a question that are read (default: 64)")  # fmt: skip
    parser.add_argument("--max-answer-length", metavar="N", type=positive_int, default=30,
                        help="tokens of an answer at most (default: 30)")  # fmt: skip
    parser.add_argument("--n-best", metavar="N", type=positive_int, default=20,
                        help="starts and ends of a window to combine, answers to list (default: 20)")  # fmt: skip
    add_finetuning_flags(
        parser, epochs={"default": None}, sequence_length={"default": 384, "help": "tokens of question and window"},
        batch_size={"default": None, "help": "windows an update, over all replicas"},
    )  # fmt: skip
    args = parser.parse_args(argv)
    if bool(args.data) == bool(args.train) or bool(args.train) != bool(args.dev):
        parser.error("give --data and --version, or --train and --dev")
    if args.data and not args.version:
        parser.error("--data needs --version: 1.1 or 2.0")
    return args


def paths_of(args):
    """The files of questions to learn from and to evaluate on."""
    if args.data:
        return [pathlib.Path(args.data, f"{split}-v{args.version}.json") for split in ("train", "dev")]
    return [args.train, args.dev]


def read_data(args):
    """Questions to learn from and to evaluate on; completes the settings that depend on the version."""
    from kbert.tasks.span.readers import read_questions

    paths = paths_of(args)
    train, dev = map(read_questions, paths)
    args.version = args.version or ("1.1" if train.has_answer.all() else "2.0")
    args.epochs = args.epochs or EPOCHS[args.version]
    args.batch_size = args.batch_size or BATCH_SIZES[args.version]
    if train.is_lost.any():
        lost = [train.ids[row] for row in train.is_lost.nonzero()[0]]
        print(f"{len(lost):,} of {len(train):,} questions are left out: their contexts lack the answer ({lost[0]} …)")
        if len(lost) == len(train):
            raise ValueError(f"{paths[0]}: expected contexts that hold the answers. Received: none that does")
        train = train.take((~train.is_lost).nonzero()[0])
    return train, dev


def finetune(args, pipeline, hardware, run, store, labels, steps):
    """Trains on the windows; the mean of the steps' speeds, in tokens a second without padding (None on workers that
    keep no history: only the first does)."""
    import numpy as np

    from kbert.tasks.span.dataset import window_dataset

    batches = batch_settings(args, hardware, args.seed)

    def make_dataset(start_step):
        return window_dataset(store, labels, start_step=start_step, **batches)

    records = fit(args, pipeline.model, hardware, run, make_dataset, steps, float(store.lengths.mean()))
    return float(np.mean([record["real_tokens_per_second"] for record in records])) if records else None


def evaluate(args, pipeline, dev, threshold):
    """`evaluate_questions`, and a line that says how fast it was."""
    from kbert.tasks.classification.dataset import real_tokens
    from kbert.tasks.span.evaluation import evaluate_questions

    with timed(len(dev), len(dev) * real_tokens(dev, pipeline.preprocessor)):
        return evaluate_questions(pipeline, dev, version=args.version, threshold=threshold, batch_size=args.batch_size)


def paper_rows(version):
    """The lines of tables 2 and 3."""
    from kbert.tasks.span.readers import SQUAD_PAPER

    for name, figures in SQUAD_PAPER[version].items():
        yield f"{'paper, ' + name:<52} EM {figures['exact']:5.1f}   F1 {figures['f1']:5.1f}"


def report(args, scores):
    """Our row, its split, and the paper's."""
    dev = scores["dev"]
    print(f"{'this run, SQuAD ' + args.version + ', dev':<52} EM {dev['exact']:5.1f}   F1 {dev['f1']:5.1f}")
    for prefix, name in (("HasAns_", "with an answer"), ("NoAns_", "without")):
        if prefix + "f1" in dev:
            name = f"  {dev[prefix + 'total']:,} {name}"
            print(f"{name:<52} EM {dev[prefix + 'exact']:5.1f}   F1 {dev[prefix + 'f1']:5.1f}")
    if args.data:
        for line in paper_rows(args.version):
            print(line)
    if scores["null_threshold"] is not None:
        print(f"no answer where its score is better by more than {scores['null_threshold']:.4f} (chosen on dev)")
    print(
        f"{scores['minutes']:.1f} minutes, {scores['real_tokens_per_second'] or 0:,.0f} real tokens/s in training; "
        "the model is in model/ of the output"
    )


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.tasks.classification.dataset import training_steps
        from kbert.tasks.span.dataset import span_windows
        from kbert.training.run_directory import open_run

        train, dev = read_data(args)
        pipeline, hardware = build_task(
            args, args.seed, "span", doc_stride=args.doc_stride, max_query_length=args.max_query_length,
            max_answer_length=args.max_answer_length, n_best=args.n_best, null_threshold=None,
        )  # fmt: skip
        run = open_run(
            args.output, settings_of(args), args.overwrite, hardware,
            inputs=inputs_of(args, data=paths_of(args) if args.data else None), recipe="finetune_squad.py",
        )  # fmt: skip
    import kbert

    print(hardware.describe())
    start = time.perf_counter()
    store, labels = span_windows(train, pipeline.preprocessor)
    steps = args.steps or training_steps(len(train), args.batch_size, args.epochs)
    print(f"{len(train):,} questions in {len(store):,} windows to learn from, {len(dev):,} to evaluate on")
    speed = finetune(args, pipeline, hardware, run, store, labels, steps)
    result = evaluate(args, pipeline, dev, "best" if args.version == "2.0" else None)
    scores = {
        "dev": result.scores, "version": args.version, "null_threshold": result.threshold, "steps": steps,
        "train_examples": len(train), "train_windows": len(store), "dev_examples": len(dev),
        "minutes": (time.perf_counter() - start) / 60, "real_tokens_per_second": speed,
    }  # fmt: skip
    if run.is_chief:
        result.write(run.path)
    final = kbert.build_pipeline(pipeline.model, null_threshold=result.threshold)
    save = lambda path, made_by: kbert.save_pretrained(final, path, made_by=made_by, overwrite=True)  # noqa: E731
    run.finish(scores, save)
    report(args, scores)
    if args.json:
        print(json.dumps(scores))


if __name__ == "__main__":
    command(main, resumes=True)
