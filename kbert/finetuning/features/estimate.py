"""What the feature-based approach is going to take: the pass of the encoder, and the training of the taggers."""

import math
import pathlib
import time
from collections.abc import Sequence

import numpy as np

from kbert.finetuning.features.extract import window_states
from kbert.finetuning.features.train import FeatureTraining, compiled_tagger
from kbert.models.feature_modes import feature_layers
from kbert.preprocessing.window_preprocessors import TaggingPreprocessor
from kbert.tasks.tagging.evaluation import TaggedWindows
from kbert.tasks.tagging.readers import TaggedText
from kbert.training.dry_run import format_seconds, peak_bytes, seconds_per_step
from kbert.training.intervals import training_steps
from kbert.training.made_by import METRICS

_WINDOWS = 32  # in a batch of the encoder, as in `write_word_features`


def estimate_feature_taggers(
    encoder,
    texts: dict[str, TaggedText],
    tags: Sequence[str],
    directory,
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
    found = {"words": sum(len(words) for text in missing for words in text.words), "windows": 0, "seconds": 0.0}
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, sequence_length)
    layers = range(encoder.config.num_layers + 1)
    for text in missing:
        batch = TaggedWindows.from_tagged_text(text, preprocessor, []).batch
        count = len(batch["token_ids"])
        found["windows"] += count
        found["seconds"] += _seconds_of_batch(encoder, batch, layers) * math.ceil(count / _WINDOWS)
    found["bytes"] = 2 * found["words"] * len(layers) * encoder.config.hidden_dim
    taggers = {mode: _tagger(mode, train, tags, encoder.config, training, steps) for mode in left}
    found |= {"steps": steps, "batch_size": training.batch_size, "taggers": taggers}
    return found | {"memory_bytes": peak_bytes()}


def describe_estimate(estimate: dict) -> str:
    """The result of `estimate_feature_taggers`, for printing."""
    lines = ["The features are there."]
    if estimate["windows"]:
        lines = [
            f"features of {estimate['words']:,} words in {estimate['windows']:,} windows: "
            f"{estimate['bytes'] / 2**20:,.0f} MiB, about {format_seconds(estimate['seconds'])}"
        ]
    if not estimate["taggers"]:
        return "Nothing is left to train."
    lines.append(f"for each tagger {estimate['steps']:,} steps of {estimate['batch_size']:,} sentences")
    for mode, one in estimate["taggers"].items():
        lines.append(f"  {mode}: {one['parameters']:,} parameters, about {format_seconds(one['seconds'])}")
    seconds = estimate["seconds"] + sum(one["seconds"] for one in estimate["taggers"].values())
    lines.append(f"memory: about {estimate['memory_bytes'] / 2**20:,.0f} MiB")
    return "\n".join([*lines, f"time: about {format_seconds(seconds)} on this machine"])


def _seconds_of_batch(encoder, batch, layers):
    some = {name: value[:_WINDOWS] for name, value in batch.items()}
    for _ in range(2):  # the first call traces
        start = time.perf_counter()
        list(window_states(encoder, some, layers, _WINDOWS))
    return time.perf_counter() - start


def _tagger(mode, train, tags, config, training, steps):
    model = compiled_tagger(mode, config, tags, training, steps)
    rows = min(training.batch_size, len(train))
    length = max(1, round(sum(map(len, train.words)) / len(train)))
    shape = (rows, length, len(feature_layers(mode, config.num_layers)), config.hidden_dim)
    inputs = {"features": np.zeros(shape, "float32"), "mask": np.ones((rows, length), bool)}
    batch = inputs, {"logits": np.zeros((rows, length), "int32")}
    return {"parameters": model.count_params(), "seconds": steps * seconds_per_step(model, batch, rows)}
