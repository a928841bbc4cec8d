"""Compares a model's outputs with what the library of another format computes from one set of files.

Shapes: B batch, S sequence, P predictions, C choices.
"""

import dataclasses
from typing import Any

import numpy as np
from keras import ops

from kbert.checks import check_path
from kbert.models.bert_model import BertModel
from kbert.options import PathLike
from kbert.weights.formats.registry import recognise_format
from kbert.weights.load import load_pretrained

_MOST_TOKENS = 48
_BATCH = 5
_CHOICES = 3


@dataclasses.dataclass(frozen=True)
class ParityReport:
    """The largest differences between two models on one random batch, at positions that are not padding.

    Attributes:
        against: the other library and its version.
        source: the files that both read.
        differences: largest absolute difference of each output. Hidden states come layer by layer, the embeddings
            first.
        largest: largest absolute value of each output, for comparison.
        reason: why nothing was compared, or "".
    """

    against: str
    source: str
    differences: dict[str, float] = dataclasses.field(default_factory=dict)
    largest: dict[str, float] = dataclasses.field(default_factory=dict)
    reason: str = ""

    def lines(self) -> list[str]:
        """The report as lines of text."""
        if self.reason:
            return [f"parity of {self.source}: not compared, {self.reason}"]
        width = max(map(len, self.differences))
        return [f"parity with {self.against} on {self.source}: largest difference (of values up to)"] + [
            f"  {name:<{width}}  {difference:.2e}  ({self.largest[name]:.3g})"
            for name, difference in self.differences.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for a JSON file."""
        return dataclasses.asdict(self)


def measure_parity(model: BertModel, path: PathLike) -> ParityReport:
    """Compares a kbert model's outputs with what the format's own library computes from the files at `path`.

    Google's own code needs TensorFlow 1. A transcription in NumPy replaces it.

    Args:
        model: a kbert model that was loaded from these files or written to them.
        path: a directory (or checkpoint) of any format.

    Returns:
        `ParityReport`; its ``reason`` says if the format has no such library, or if it is not installed.

    Raises:
        TypeError: `model` is not a kbert model, or `path` is not a path.

    Example::

        model = kbert.load_pretrained("models/uncased_L-2")
        kbert.weights.measure_parity(model, "models/uncased_L-2").lines()  # a line for each output
    """
    if not isinstance(model, BertModel):
        raise TypeError(f"measure_parity: `model` must be a kbert model. Received: {type(model).__name__}")
    path = check_path(path, "measure_parity: `path`")
    batch = _random_batch(model)
    form = recognise_format(path)
    try:
        reference = None if form is None else form.reference_outputs(model, path, batch)
    except ImportError as error:
        return ParityReport("", str(path), reason=f"{error.name or error} is not installed")
    if reference is None:
        name = "unknown" if form is None else form.name
        return ParityReport("", str(path), reason=f"no other library computes from the format {name}")
    library, expected = reference
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
    return ParityReport(library, str(path), differences, largest)


def conversion_report(model: BertModel, output: PathLike) -> tuple[dict[str, Any], list[str]]:
    """Compares a model, and the files written from it, with the libraries of both formats; for JSON, and as lines."""
    written = load_pretrained(output)
    report = {}
    lines = list(model.pretrained.report.table())
    for side, converted, path in (("read", model, model.pretrained.report.source), ("written", written, output)):
        parity = measure_parity(converted, path)
        report[side] = {**converted.pretrained.report.to_dict(), "parity": parity.to_dict()}
        lines += parity.lines()
    return report, lines


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
