"""The feature-based approach of table 7: taggers on hidden states that a frozen encoder computes only once.

Shapes: B batch, T words of the longest sentence, L layers, H hidden, N labels, n words of all sentences.
"""

import dataclasses
import functools
import logging
import math
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from kbert.files import explain_full_disk, read_json
from kbert.finetuning.features.extract import window_states, write_word_features
from kbert.finetuning.features.modes import FEATURE_MODES, PAPER, feature_layers
from kbert.finetuning.features.tagger import feature_tagger
from kbert.finetuning.run import Run
from kbert.inspection.examples.dev_examples import DevExamples
from kbert.optim.losses import ClassificationLoss
from kbert.optim.metrics import WeightedAccuracy
from kbert.options import PathLike
from kbert.preprocessing.window_preprocessors import TaggingPreprocessor
from kbert.tasks.scores import cross_entropies
from kbert.tasks.tagging.evaluation import TaggedWindows, entity_views, write_predictions
from kbert.tasks.tagging.readers import TaggedText
from kbert.tasks.tagging.tag_scheme import entity_scores
from kbert.tasks.task import Evaluation
from kbert.tasks.training_data import row_batches
from kbert.training.callbacks import ConsoleProgress
from kbert.training.dev_evaluation import DevEvaluation, evaluation_steps
from kbert.training.dry_run import format_seconds, peak_bytes, seconds_per_step
from kbert.training.intervals import log_interval_for, training_steps, without_neighbours
from kbert.training.logs import training_minutes
from kbert.training.made_by import METRICS
from kbert.training.resume import fit_steps
from kbert.training.run_directory import RunDirectory, open_run

if TYPE_CHECKING:
    from kbert.models.encoder import BertEncoder

_LOGGER = logging.getLogger("kbert")
_LOG_EVERY = 50  # steps, about
_WINDOWS = 32  # in a batch of the encoder, as in `write_word_features`


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureTraining:
    """Training of the two-layer BiLSTM. The paper gives no learning rate or epochs; here the rate falls to 0.

    Args:
        evaluate_every: "epoch", a number of steps, or None: when dev is scored, besides after the last step. The scores
            are for its curve: the weights that are kept are the last.
    """

    epochs: float = 10.0
    steps: int | None = None
    batch_size: int = 32
    learning_rate: float = 1e-3
    units: int = 768
    dropout: float = 0.1
    seed: int = 0
    checkpoint_every: int = 100
    evaluate_every: str | int | None = "epoch"


def train_feature_taggers(
    encoder: "BertEncoder",
    texts: dict[str, TaggedText],
    tags: Sequence[str],
    directory: PathLike,
    modes: Sequence[str] = FEATURE_MODES,
    *,
    sequence_length: int = 128,
    settings: dict[str, Any] | None = None,
    inputs: dict[str, Any] | None = None,
    recipe: str | None = None,
    training: FeatureTraining = FeatureTraining(),
    profile: str | None = None,
    features: PathLike | None = None,
) -> dict[str, dict]:
    """Writes the features of all words once, and trains and scores a tagger for each feature mode.

    The directory receives ``features/`` (unless `features` is a directory that several trainings share) and a folder
    for each mode, a run that resumes, with its logs. Returns {mode: metrics} of all finished modes, including these.

    Args:
        encoder: `BertEncoder` with ``outputs=("hidden_states",)``.
        texts: {"train", "dev"}.
        settings, inputs, recipe: of `open_run`, for the runs of the modes.

    Source: Devlin et al. 2018, section 5.3 and table 7.
    """
    directory = pathlib.Path(directory)
    done = {}
    features = directory / "features" if features is None else pathlib.Path(features)
    for mode in FEATURE_MODES:
        path = directory / mode
        if (path / METRICS).exists():
            done[mode] = read_json(path / METRICS)
        elif mode in modes:
            _write_features(encoder, texts, features, sequence_length)
            _LOGGER.info("%s", mode)
            run = open_run(path, (settings or {}) | {"feature_modes": [mode]}, inputs=inputs, recipe=recipe)
            done[mode] = _train(mode, run, features, texts, tags, encoder.config, training, profile)
    return done


def _compiled_tagger(mode: str, config, tags, options: FeatureTraining, steps: int) -> keras.Model:
    """The tagger of a feature mode, new, as it is trained for `steps`; `config` is the encoder's."""
    keras.utils.set_random_seed(options.seed)
    model = feature_tagger(
        mode, config.num_layers, config.hidden_dim, len(tags), units=options.units, dropout=options.dropout
    )
    schedule = keras.optimizers.schedules.PolynomialDecay(options.learning_rate, steps, end_learning_rate=0.0)
    model.compile(
        keras.optimizers.Adam(schedule, global_clipnorm=1.0),
        {"logits": ClassificationLoss()},
        weighted_metrics={"logits": [WeightedAccuracy()]},
        jit_compile=False,
    )
    return model


def _write_features(encoder, texts: dict, directory: pathlib.Path, sequence_length: int) -> None:
    """Writes the features of each text that do not exist yet."""
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, sequence_length)
    for name, tagged in texts.items():
        path = directory / f"{name}.npy"
        start = time.perf_counter()
        write_word_features(path, encoder, preprocessor, tagged, range(encoder.config.num_layers + 1))
        words = sum(map(len, tagged.words))
        size = path.stat().st_size / 2**20
        _LOGGER.info(f"features of {words:,} words ({name}): {size:,.0f} MiB, {time.perf_counter() - start:.0f} s")


def _train(
    mode: str,
    directory: RunDirectory,
    features: pathlib.Path,
    texts: dict,
    tags,
    config,
    options: FeatureTraining,
    profile,
) -> dict:
    layers = feature_layers(mode, config.num_layers)
    train, dev = (FeatureSentences(features / f"{name}.npy", texts[name], tags, layers) for name in texts)
    steps = options.steps or training_steps(len(train), options.batch_size, options.epochs)
    model = _compiled_tagger(mode, config, tags, options, steps)
    make_dataset = functools.partial(feature_dataset, train, batch_size=options.batch_size, seed=options.seed)
    evaluate = functools.partial(evaluate_features, model, dev, tags, batch_size=options.batch_size)
    due = without_neighbours(evaluation_steps(steps, options.evaluate_every, len(train) / options.batch_size))
    window = log_interval_for(due, options.checkpoint_every, _LOG_EVERY)
    evaluation = DevEvaluation(evaluate, due, "f1", directory.path, keep="last")
    run = Run(directory, directory.path / "logs")
    answer = train.tagged.baseline()
    constant = entity_scores(dev.tagged.tags, [[answer] * len(words) for words in dev.tagged.words])
    run.show(
        dataclasses.asdict(options) | {"feature_mode": mode, "parameters": model.count_params()},
        {name: constant[name] for name in ("f1", "precision", "recall", "accuracy")},
        profile=profile,
        examples=functools.partial(DevExamples, evaluation),
    )
    history = fit_steps(
        model,
        make_dataset,
        steps,
        run.path,
        window=window,
        checkpoint_every=options.checkpoint_every // window,
        callbacks=[ConsoleProgress(), *run.callbacks],
        real_tokens=options.batch_size * float(train.lengths.mean()),
        evaluation=evaluation,
    )
    done, result = evaluation.last
    if result is None or done != steps:  # a run that had ended before
        result = evaluate()
    result.write(run.path)
    with explain_full_disk(run.path / "tagger.keras"):
        model.save(run.path / "tagger.keras")
    metrics = {
        "dev": result.scores,
        "evaluations": evaluation.records,
        "layers": list(layers),
        "steps": steps,
        "train_examples": len(train),
        "minutes": training_minutes(history),
    }
    run.finish(metrics, result.scores, steps)
    return metrics


def estimate_feature_taggers(
    encoder: "BertEncoder",
    texts: dict[str, TaggedText],
    tags: Sequence[str],
    directory: PathLike,
    modes: Sequence[str],
    *,
    sequence_length: int,
    training: FeatureTraining,
) -> dict:
    """Estimates what `train_feature_taggers` has left to do with these arguments; writes nothing.

    The encoder is timed on one batch of windows, and each tagger over a few steps on sentences of average length.

    Returns:
        dict: of the features that are not there yet ``words``, ``windows``, ``bytes`` on the disk and ``seconds``;
        ``steps`` and ``batch_size`` of a tagger; ``memory_bytes``, the peak of this process or its accelerator; and
        ``taggers``, {mode: its ``parameters`` and ``seconds``} of those that are left to train.
    """
    directory = pathlib.Path(directory)
    train = texts["train"]
    left = [mode for mode in modes if not (directory / mode / METRICS).exists()]
    steps = training.steps or training_steps(len(train), training.batch_size, training.epochs)
    missing = [text for name, text in texts.items() if left and not (directory / "features" / f"{name}.npy").exists()]
    windows = 0
    seconds = 0.0
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, sequence_length)
    layers = range(encoder.config.num_layers + 1)
    for text in missing:
        batch = TaggedWindows.from_tagged_text(text, preprocessor, []).batch
        windows += len(batch["token_ids"])
        seconds += _seconds_of_batch(encoder, batch, layers) * math.ceil(len(batch["token_ids"]) / _WINDOWS)
    words = sum(len(words) for text in missing for words in text.words)
    return {
        "words": words,
        "windows": windows,
        "seconds": seconds,
        "bytes": 2 * words * len(layers) * encoder.config.hidden_dim,
        "steps": steps,
        "batch_size": training.batch_size,
        "taggers": {mode: _estimate_tagger(mode, train, tags, encoder.config, training, steps) for mode in left},
        "memory_bytes": peak_bytes(),
    }


def describe_estimate(estimate: dict) -> str:
    """The result of `estimate_feature_taggers`, for printing."""
    if not estimate["taggers"]:
        return "Nothing is left to train."
    lines = ["The features are there."]
    if estimate["windows"]:
        lines = [
            f"features of {estimate['words']:,} words in {estimate['windows']:,} windows: "
            f"{estimate['bytes'] / 2**20:,.0f} MiB, about {format_seconds(estimate['seconds'])}"
        ]
    lines.append(f"for each tagger {estimate['steps']:,} steps of {estimate['batch_size']:,} sentences")
    seconds = estimate["seconds"]
    for mode, tagger in estimate["taggers"].items():
        lines.append(f"  {mode}: {tagger['parameters']:,} parameters, about {format_seconds(tagger['seconds'])}")
        seconds += tagger["seconds"]
    lines.append(f"memory: about {estimate['memory_bytes'] / 2**20:,.0f} MiB")
    return "\n".join([*lines, f"time: about {format_seconds(seconds)} on this machine"])


def _seconds_of_batch(encoder, batch: dict, layers: Sequence[int]) -> float:
    first = {name: value[:_WINDOWS] for name, value in batch.items()}
    for _ in range(2):  # the first call traces
        start = time.perf_counter()
        list(window_states(encoder, first, layers, _WINDOWS))
    return time.perf_counter() - start


def _estimate_tagger(mode: str, train, tags, config, training: FeatureTraining, steps: int) -> dict:
    model = _compiled_tagger(mode, config, tags, training, steps)
    rows = min(training.batch_size, len(train))
    length = max(1, round(sum(map(len, train.words)) / len(train)))
    shape = (rows, length, len(feature_layers(mode, config.num_layers)), config.hidden_dim)
    inputs = {"features": np.zeros(shape, "float32"), "mask": np.ones((rows, length), bool)}
    batch = inputs, {"logits": np.zeros((rows, length), "int32")}
    return {"parameters": model.count_params(), "seconds": steps * seconds_per_step(model, batch, rows)}


def describe_scores(metrics: Mapping[str, dict]) -> str:
    """F1 on dev in percent of each feature mode, and the minutes it took, beside the paper's figures, for printing."""
    lines = [f"{'F1 on dev, feature-based':<28}{'paper, BERT-base':>18}{'this run':>12}{'minutes':>10}"]
    for mode, published in PAPER.items():
        ours = f"{100 * metrics[mode]['dev']['f1']:.1f}" if mode in metrics else "-"
        minutes = f"{metrics[mode]['minutes']:.1f}" if mode in metrics else "-"
        lines.append(f"{mode:<28}{published:>18.1f}{ours:>12}{minutes:>10}")
    return "\n".join(lines)


class FeatureSentences:
    """Sentences with the features of their words, read from a file on demand."""

    def __init__(self, path: PathLike, tagged: TaggedText, tags: Sequence[str], columns: Sequence[int]) -> None:
        self.features = np.load(path, mmap_mode="r")
        self.tagged = tagged
        self.columns = list(columns)
        self.lengths = np.array([len(words) for words in tagged.words], "int32")
        self.starts = np.cumsum(self.lengths) - self.lengths
        if len(self.features) != self.lengths.sum():
            raise ValueError(
                f"{path}: expected the features of {self.lengths.sum():,} words. Received: {len(self.features):,}; "
                "delete the file, and it will be written again."
            )
        index = {tag: n for n, tag in enumerate(tags)}
        self.labels = np.array([index.get(tag, -1) for sentence in tagged.tags for tag in sentence], "int32")

    def __len__(self):
        return len(self.lengths)

    def batch(self, rows: Sequence[int] | np.ndarray) -> dict[str, np.ndarray]:
        """``features`` float32 [B, T, L, H], ``mask`` bool [B, T], ``labels`` int32 [B, T] (-1: none)."""
        size = int(self.lengths[rows].max())
        features = np.zeros((len(rows), size, len(self.columns), self.features.shape[-1]), "float32")
        labels = np.full((len(rows), size), -1, "int32")
        for n, row in enumerate(rows):
            words = slice(self.starts[row], self.starts[row] + self.lengths[row])
            features[n, : self.lengths[row]] = self.features[words][:, self.columns]
            labels[n, : self.lengths[row]] = self.labels[words]
        return {"features": features, "mask": np.arange(size) < self.lengths[rows][:, None], "labels": labels}


def feature_dataset(
    sentences: FeatureSentences, *, batch_size: int, seed: int = 0, start_step: int = 0
) -> tf.data.Dataset:
    """An infinite dataset for `model.fit`, with sentences of similar length in a batch, in a new order each epoch.

    Batch n depends only on the sentences, `batch_size`, `seed` and n, so a run that resumes at `start_step` gets the
    same batches as without the interruption.

    Returns:
        tf.data.Dataset of ``(inputs, labels)``: inputs ``features`` [B, T, L, H] and ``mask`` [B, T], labels
        ``{"logits": int32 [B, T]}``, -1 after the end of a sentence, which the loss ignores.
    """

    def read(rows):
        batch = sentences.batch(rows)
        return batch["features"], batch["mask"], batch["labels"]

    @tf.autograph.experimental.do_not_convert
    def batch(rows):  # [B]
        features, mask, labels = tf.numpy_function(read, [rows], [tf.float32, tf.bool, tf.int32])
        features.set_shape((batch_size, None, len(sentences.columns), sentences.features.shape[-1]))
        mask.set_shape((batch_size, None))
        labels.set_shape((batch_size, None))
        return {"features": features, "mask": mask}, {"logits": labels}

    rows = row_batches(len(sentences), batch_size=batch_size, seed=seed, start_step=start_step, sizes=sentences.lengths)
    return rows.map(batch, num_parallel_calls=1).prefetch(2)


def evaluate_features(
    model: keras.Model, sentences: FeatureSentences, tags: Sequence[str], *, batch_size: int = 32
) -> Evaluation:
    """Tags every word and scores the tags.

    Returns:
        `Evaluation`: scores are ``loss``, the mean over the words, and those of `entity_scores`; predictions are the
        tags of each sentence.
    """
    predicted = [[] for _ in range(len(sentences))]
    losses = []
    order = np.argsort(-sentences.lengths, kind="stable")
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        batch = sentences.batch(rows)
        inputs = {name: tf.constant(batch[name]) for name in ("features", "mask")}
        logits = np.asarray(model.predict_on_batch(inputs)["logits"])  # [B, T, N]
        for row, of_sentence in zip(rows, logits.argmax(axis=-1), strict=True):
            predicted[row] = [tags[n] for n in of_sentence[: sentences.lengths[row]]]
        has_label = batch["labels"] >= 0
        losses.append(cross_entropies(logits[has_label], batch["labels"][has_label]))
    scores = {"loss": float(np.concatenate(losses).mean()), **entity_scores(sentences.tagged.tags, predicted)}
    return Evaluation(
        scores,
        predicted,
        write=lambda directory: write_predictions(directory / "predictions.txt", sentences.tagged, predicted),
        show=lambda: entity_views(sentences.tagged, predicted, scores),
    )
