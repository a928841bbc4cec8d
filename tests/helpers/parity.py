"""Compares a model's outputs with what the library of another format computes from one set of files.

Shapes: B batch, S sequence, P predictions, C choices.
"""

import dataclasses
import pathlib

import numpy as np
from keras import ops

from helpers.reference_outputs import REFERENCE_OUTPUTS
from kbert.aliases import PathLike
from kbert.models.bert_model import BertModel
from kbert.weights.formats.registry import recognize_format
from kbert.weights.source import is_preset

_MOST_TOKENS = 48
_BATCH = 5
_CHOICES = 3


@dataclasses.dataclass(frozen=True)
class ParityReport:
    """The largest differences between two models on one random batch, at positions that are not padding.

    `against` is the other library and its version, `differences` the largest absolute difference of each output,
    `largest` its largest absolute value. Hidden states come layer by layer, the embeddings first.
    """

    against: str
    differences: dict[str, float]
    largest: dict[str, float]

    @property
    def worst(self) -> float:
        """The largest difference of an output, relative to its largest absolute value."""
        return max(difference / self.largest[name] for name, difference in self.differences.items())


def measure_parity(model: BertModel, path: PathLike, **options) -> ParityReport:
    """Compares a kbert model, which was loaded from these files or written to them, with the format's own library.

    `options` are for that library: the directory of an `adapter` for Hugging Face's.
    """
    path = pathlib.Path(path)
    batch = _random_batch(model)
    name = "kerashub" if is_preset(path) else recognize_format(path).NAMES.format
    library, expected = REFERENCE_OUTPUTS[name](model, path, batch, **options)
    outputs = _kbert_outputs(model, batch)
    real = batch["padding_mask"]
    differences, largest = {}, {}
    for name, values in _chosen(model, expected).items():
        has_tokens = name.startswith("hidden_states") or name in model.token_outputs
        positions = real if has_tokens else ...
        ours = np.asarray(outputs[name], np.float64)[positions]
        theirs = np.asarray(values, np.float64)[positions]
        differences[name] = float(np.max(np.abs(ours - theirs)))
        largest[name] = float(np.max(np.abs(theirs)))
    return ParityReport(library, differences, largest)


def _random_batch(model) -> dict[str, np.ndarray]:
    """Random tokens for a model: B rows of different lengths, one of them full."""
    rng, config = np.random.default_rng(0), model.config
    length = min(_MOST_TOKENS, config.max_sequence_length)
    rows = (_BATCH, _CHOICES) if model.task == "multiple_choice" else (_BATCH,)
    lengths = rng.integers(min(2, length), length + 1, rows)
    lengths.flat[0] = length
    batch = {
        "token_ids": rng.integers(0, config.vocabulary_size, (*rows, length)).astype("int32"),
        "segment_ids": rng.integers(0, config.num_segments, (*rows, length)).astype("int32"),
        "padding_mask": np.arange(length) < lengths[..., None],
    }
    if "mask_positions" in model.input:
        batch["mask_positions"] = rng.integers(0, lengths[:, None], (_BATCH, min(7, length))).astype("int32")
    return batch


def _kbert_outputs(model, batch) -> dict[str, np.ndarray]:
    """The model's outputs, and its encoder's hidden states and pooled output, by name."""
    lists = ("hidden_states", "attention_probs")
    outputs = {name: value for name, value in model(batch, training=False).items() if name not in lists}
    shape = batch["token_ids"].shape
    rows = {name: batch[name].reshape(-1, shape[-1]) for name in ("token_ids", "segment_ids", "padding_mask")}
    # From the model's own layers, since a second encoder would hold the weights again.
    encoder = model.encoder
    states = [encoder.embeddings(rows["token_ids"], rows["segment_ids"], training=False)]
    bias = encoder.get_layer("attention_bias")(rows["padding_mask"])
    for block in encoder.blocks:
        states.append(block(states[-1], bias, training=False))
    if encoder.pooler is not None:
        outputs.setdefault("pooled_output", encoder.pooler(states[-1], training=False))
    states[-1] = outputs.pop("sequence_output", states[-1])
    outputs |= {f"hidden_states/{i}": ops.reshape(x, (*shape, -1)) for i, x in enumerate(states)}
    return {name: ops.convert_to_numpy(value) for name, value in outputs.items()}


def _chosen(model, outputs):
    """The outputs that the kbert model has too, hidden states one by one."""
    chosen = {f"hidden_states/{i}": x for i, x in enumerate(outputs["hidden_states"])}
    pooled = ("pooled_output",) if model.encoder.pooler is not None and "pooled_output" in outputs else ()
    heads = () if model.task == "encoder" else tuple(model.output)
    return chosen | {name: outputs[name] for name in (*pooled, *heads)}
