"""Commands that fine-tune: on a task, on GLUE, on the features of a frozen encoder."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import kbert
from kbert.cli import Command
from kbert.finetuning.finetune import FinetunedRun, finetune
from kbert.finetuning.grid import finetune_glue
from kbert.options import (
    PASSING,
    Arguments,
    Count,
    FractionBelowOne,
    Natural,
    PathLike,
    Positive,
    Precision,
    verb,
)
from kbert.pipelines.registry import task_class, task_names


def task_classes() -> Mapping[str, Callable]:
    """By the word that comes first: what makes the task object."""
    classes = {word: task_class(word) for word in task_names()}
    return {word: task for word, task in classes.items() if task.is_finetuned} | {"glue": kbert.tasks.glue}


def report_finetuned(run: FinetunedRun) -> None:
    """Prints the scores beside those of a constant answer, and where the model is; of a dry run the estimate."""
    metrics = run.metrics
    if "seconds_per_step" in metrics:
        from kbert.training.dry_run import format_estimate

        print(format_estimate(metrics))
        return
    from kbert.finetuning.run_evaluation import describe_groups

    constant = metrics.get("constant_answer", {})
    dev = metrics.get("dev", {})
    for name, value in dev.items():
        if isinstance(value, float) and name != "loss":
            print(f"{name}: {value:.4f}" + (f"  (constant answer: {constant[name]:.4f})" if name in constant else ""))
    for line in describe_groups(dev):
        print(line)
    where = "" if run.path is None else f"; the model is in {run.path / 'model'}"
    print(f"{metrics['minutes']:.1f} minutes{where}")


def report_glue(result: Mapping[str, Any]) -> None:
    """Prints the tables of `finetune_glue`, beside the paper's; of a dry run what is left to do."""
    if "average" not in result:
        from kbert.training.dry_run import format_estimate

        for name, left in result["tasks"].items():
            print(f"{name}: {left['runs']} runs left")
            if left["first"] is not None:
                print(format_estimate(left["first"]))
        return
    from kbert.tasks.glue_benchmark.tasks import describe_all

    print(describe_all(result))


@verb(lambda asked: _tag_features(asked))
def tag_features(
    source: PathLike,
    train: PathLike,
    output: Annotated[PathLike, PASSING],
    *,
    dev: FractionBelowOne | PathLike = 0.1,
    train_sentences: Count | None = None,
    tag_column: int = -1,
    scheme: str | None = None,
    feature_modes: Annotated[list[str], PASSING] = (),
    epochs: Positive = 10.0,
    steps: Count | None = None,
    batch_size: Count = 32,
    learning_rate: Positive = 1e-3,
    units: Count = 768,
    dropout: FractionBelowOne = 0.1,
    sequence_length: Count = 128,
    seed: Natural = 0,
    checkpoint_every: Annotated[Count, PASSING] = 100,
    evaluate_every: Literal["epoch"] | Count | None = "epoch",
    precision: Precision = "auto",
    profile: Annotated[str | None, PASSING] = None,
    overwrite: Annotated[bool, PASSING] = False,
    dry_run: Annotated[bool, PASSING] = False,
) -> dict[str, Any]:
    """Finds named entities without fine-tuning, as in table 7 of the paper: a BiLSTM on a frozen encoder's features.

    The encoder reads whole documents once: the hidden states of each word's first token are written to ``features/`` in
    `output` (words x (layers + 1) x hidden x 2 bytes, which may be deleted at the end), and the taggers of all feature
    modes are trained on these. The paper gives neither learning rate nor epochs; here Adam's rate falls linearly to 0.
    The same command resumes: finished features and modes are not computed again.

    Args:
        source: the encoder.
        train, dev: files of tagged words in columns, as of CoNLL-2003; a fraction as `dev`: of `train`'s documents.
        train_sentences: train on the first so many sentences only.
        output: directory that receives a folder for each mode, and the table when all six are finished.
        tag_column: column of the tag, from 0 or from the end.
        scheme: of the tags: iob1, iob2, bioes or bilou; None: recognised.
        feature_modes: of embeddings, second-to-last, last, weighted-sum-last-four, concat-last-four and
            weighted-sum-all; none: all.
        epochs, steps, batch_size, learning_rate, seed, checkpoint_every, evaluate_every: of each tagger's training.
        units: of each LSTM in each direction.
        dropout: rate of the BiLSTM.
        sequence_length: tokens of a window; longer texts have several.
        precision: of the encoder.
        profile: steps to profile for TensorBoard, as "20:25".
        overwrite: delete what is in `output`.
        dry_run: train nothing, and estimate what is left to do.

    Returns:
        The metrics of each finished mode; of a dry run the estimate.
    """


def _tag_features(asked: Arguments) -> dict[str, Any]:
    from kbert.finetuning.features.modes import FEATURE_MODES
    from kbert.finetuning.features.train import FeatureTraining, estimate_feature_taggers, train_feature_taggers
    from kbert.training.hardware import choose_hardware
    from kbert.training.run_directory import open_run

    if wrong := [mode for mode in asked.feature_modes if mode not in FEATURE_MODES]:
        raise ValueError(f"tag-features: `feature_modes` must be of {list(FEATURE_MODES)}. Received: {wrong[0]!r}")
    task = kbert.tasks.Tagging(tag_column=asked.tag_column, scheme=asked.scheme)
    train = task.read(asked.train)
    is_held_out = isinstance(asked.dev, float)
    train, dev = train.split(asked.dev) if is_held_out else (train, task.read(asked.dev))
    if asked.train_sentences is not None:
        train = train.take(range(min(asked.train_sentences, len(train))))
    texts = {"train": train, "dev": dev}
    tags = task.settings(train)["labels"]
    hardware = choose_hardware("one", asked.precision)
    with hardware.scope():
        encoder = kbert.load_pretrained(
            asked.source, task="encoder", outputs=("hidden_states",), sequence_length=asked.sequence_length
        )
    training = FeatureTraining(
        epochs=asked.epochs,
        steps=asked.steps,
        batch_size=asked.batch_size,
        learning_rate=asked.learning_rate,
        units=asked.units,
        dropout=asked.dropout,
        seed=asked.seed,
        checkpoint_every=asked.checkpoint_every,
        evaluate_every=asked.evaluate_every,
    )
    modes = tuple(asked.feature_modes) or FEATURE_MODES
    if asked.dry_run:
        with hardware.scope():
            return estimate_feature_taggers(
                encoder, texts, tags, asked.output, modes, sequence_length=asked.sequence_length, training=training
            )
    settings = asked.settings()
    inputs = {"source": asked.source, "train": asked.train} | ({} if is_held_out else {"dev": asked.dev})
    run = open_run(asked.output, settings, asked.overwrite, inputs=inputs, recipe="kbert tag-features")
    with hardware.scope():
        done = train_feature_taggers(
            encoder,
            texts,
            tags,
            run.path,
            modes,
            sequence_length=asked.sequence_length,
            settings=settings,
            inputs=inputs,
            recipe="kbert tag-features",
            training=training,
            profile=asked.profile,
        )
    metrics = {"feature_modes": done, "train_examples": len(train)}
    if len(done) == len(FEATURE_MODES):
        run.finish(metrics)
    return metrics


def report_taggers(metrics: Mapping[str, Any]) -> None:
    """Prints the table beside the paper's; of a dry run the estimate."""
    from kbert.finetuning.features.train import describe_estimate, describe_scores

    print(describe_scores(metrics["feature_modes"]) if "feature_modes" in metrics else describe_estimate(metrics))


COMMANDS = {
    "finetune": Command(
        verb=finetune,
        tasks=task_classes,
        report=report_finetuned,
        as_json=lambda run: run.metrics,
        resumes=True,
        epilog="""
        kbert finetune classification --source google-bert/bert-base-uncased --train reviews.csv --label stars \\
            --dev 0.1 --output runs/reviews
        kbert finetune glue --name SST-2 --source saved_models/kbert-tiny --train glue --dev glue --output runs/sst2
        kbert finetune span --source runs/triviaqa --train train-v2.0.json --dev dev-v2.0.json --output runs/squad
        """,
    ),
    "glue": Command(
        verb=finetune_glue,
        report=report_glue,
        as_json=dict,
        resumes=True,
        epilog="""
        kbert glue --source saved_models/kbert-tiny --directory glue --output runs/glue \\
            --learning-rates 1e-4 3e-4 1e-3 --seeds 0 1 2
        """,
    ),
    "tag-features": Command(
        verb=tag_features,
        report=report_taggers,
        as_json=dict,
        resumes=True,
        epilog="kbert tag-features --source saved_models/kbert-tiny --train eng.train --output runs/features",
    ),
}
