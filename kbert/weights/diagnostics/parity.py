"""How far a model is from what the library of another family computes from the same files.

Shapes: B batch, S sequence, P predictions, C choices.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np
from keras import ops

from kbert.files import read_json
from kbert.weights.diagnostics.google_reference import google_forward
from kbert.weights.formats.google.read import CONFIG as GOOGLE_CONFIG
from kbert.weights.formats.google.read import read_google_checkpoint
from kbert.weights.formats.huggingface.read import is_huggingface_directory
from kbert.weights.formats.huggingface.write import class_of
from kbert.weights.formats.kerashub.read import is_kerashub_preset

_MOST_TOKENS = 48
_BATCH = 5
_CHOICES = 3


@dataclasses.dataclass(frozen=True)
class ParityReport:
    """The largest differences between two models on the same random batch, at places that are not padding.

    Attributes:
        against: the other library and its version.
        source: the files both read.
        differences: output → largest absolute difference; hidden states layer by layer, the embeddings first.
        largest: output → largest absolute value, for comparison.
        reason: why nothing was compared, or "".
    """

    against: str
    source: str
    differences: dict[str, float] = dataclasses.field(default_factory=dict)
    largest: dict[str, float] = dataclasses.field(default_factory=dict)
    reason: str = ""

    def lines(self) -> list[str]:
        """As text."""
        if self.reason:
            return [f"parity of {self.source}: not compared, {self.reason}"]
        width = max(map(len, self.differences))
        return [f"parity with {self.against} on {self.source}: largest difference (of values up to)"] + [
            f"  {name:<{width}}  {difference:.2e}  ({self.largest[name]:.3g})"
            for name, difference in self.differences.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a JSON file."""
        return dataclasses.asdict(self)


def measure_parity(model, path, seed: int = 0) -> ParityReport:
    """Compares a kbert model with what the family's own library makes of the files at `path`.

    Google's own code needs TensorFlow 1: its place takes a transcription in NumPy (google_reference.py).

    Args:
        model: a kbert model, loaded from there or written to there.
        path: a directory (or checkpoint) in the format of Google, Hugging Face or KerasHub.
        seed: of the random batch: rows of different lengths, padded; random tokens and segments.

    Returns:
        `ParityReport`; of a kbert directory, or where the library is not installed, one that says so.
    """
    path = pathlib.Path(path)
    batch = random_batch(model, seed)
    try:
        against, expected = _expected(model, path, batch)
    except ImportError as error:
        return ParityReport("", str(path), reason=f"{error.name or error} is not installed")
    if expected is None:
        return ParityReport("", str(path), reason="it is kbert's own format")
    found = kbert_outputs(model, batch)
    real = batch["padding_mask"]
    differences, largest = {}, {}
    for name, values in expected.items():
        places = real if name.startswith("hidden_states") or name.endswith(("start_logits", "end_logits")) else ...
        places = real if model.task == "tagging" and name == "logits" else places
        ours, theirs = np.asarray(found[name], np.float64)[places], np.asarray(values, np.float64)[places]
        differences[name], largest[name] = float(np.max(np.abs(ours - theirs))), float(np.max(np.abs(theirs)))
    return ParityReport(against, str(path), differences, largest)


def random_batch(model, seed: int = 0) -> dict[str, np.ndarray]:
    """A batch of random tokens for a model: B rows of different lengths, one of them full."""
    rng, config = np.random.default_rng(seed), model.config
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


def kbert_outputs(model, batch) -> dict[str, np.ndarray]:
    """The model's outputs, and its encoder's hidden states and pooled output, by name."""
    lists = ("hidden_states", "attention_probs")
    outputs = {name: value for name, value in model(batch, training=False).items() if name not in lists}
    shape = batch["token_ids"].shape
    rows = {name: batch[name].reshape(-1, shape[-1]) for name in ("token_ids", "segment_ids", "padding_mask")}
    states = _hidden_states(model.encoder, rows)
    if model.encoder.pooler is not None:
        outputs.setdefault("pooled_output", model.encoder.pooler(states[-1], training=False))
    states[-1] = outputs.pop("sequence_output", states[-1])
    outputs |= {f"hidden_states/{i}": ops.reshape(x, (*shape, -1)) for i, x in enumerate(states)}
    return {name: ops.convert_to_numpy(value) for name, value in outputs.items()}


def _hidden_states(encoder, rows):
    """Of every block, from the model's own layers: another encoder with these outputs would hold the weights twice."""
    x = encoder.embeddings(rows["token_ids"], rows["segment_ids"], training=False)
    bias = encoder.get_layer("attention_bias")(rows["padding_mask"])
    states = [x]
    for block in encoder.blocks:
        states.append(block(states[-1], bias, training=False))
    return states


def _expected(model, path, batch):
    """Name of the library, and its outputs under kbert's names; None for kbert's own format."""
    if is_kerashub_preset(path):
        return _kerashub(model, path, batch)
    if is_huggingface_directory(path):
        return _huggingface(model, path, batch)
    if (path / GOOGLE_CONFIG).is_file() or (path.parent / GOOGLE_CONFIG).is_file():
        return _google(model, path, batch)
    return "", None


def _google(model, path, batch):
    checkpoint = read_google_checkpoint(path)
    config = read_json(checkpoint.tensors.path.parent / GOOGLE_CONFIG)
    outputs = google_forward(checkpoint.tensors.read, checkpoint.tensors.tensors, config, batch)
    if model.task == "regression":
        outputs["score"] = outputs["logits"][:, 0]
    return "a NumPy transcription of google-research/bert", _chosen(model, outputs)


def _huggingface(model, path, batch):
    import torch
    import transformers

    directory = path.parent if path.is_file() else path
    their_class = getattr(transformers, class_of(model))
    options = {"add_pooling_layer": False} if model.task == "encoder" and model.encoder.pooler is None else {}
    theirs = their_class.from_pretrained(directory, **options).eval()
    arguments = {
        "input_ids": torch.tensor(batch["token_ids"], dtype=torch.long),
        "token_type_ids": torch.tensor(batch["segment_ids"], dtype=torch.long),
        "attention_mask": torch.tensor(batch["padding_mask"], dtype=torch.long),
    }
    with torch.no_grad():
        outputs = theirs(**arguments, output_hidden_states=True)
        rows = {name: value.flatten(0, -2) for name, value in arguments.items()}
        pooled = getattr(theirs, "bert", theirs)(**rows).pooler_output
    shape = batch["token_ids"].shape
    found = {"hidden_states": [x.numpy().reshape(*shape, -1) for x in outputs.hidden_states]}
    if pooled is not None:
        found["pooled_output"] = pooled.numpy()
    for ours, names in {
        "mlm_logits": ("prediction_logits", "logits"),
        "nsp_logits": ("seq_relationship_logits", "logits"),
        "logits": ("logits",),
        "score": ("logits",),
        "start_logits": ("start_logits",),
        "end_logits": ("end_logits",),
    }.items():
        if ours in model.output:
            found[ours] = next(outputs[name].numpy() for name in names if name in outputs)
    if "mlm_logits" in found:
        found["mlm_logits"] = np.take_along_axis(found["mlm_logits"], batch["mask_positions"][:, :, None], axis=1)
    if "score" in found:
        found["score"] = found["score"][:, 0]
    return f"transformers {transformers.__version__}", _chosen(model, found)


def _kerashub(model, path, batch):
    import keras
    import keras_hub

    if model.task == "masked_lm":
        theirs = keras_hub.models.BertMaskedLM.from_preset(str(path), preprocessor=None)
    elif model.task in ("classification", "regression"):
        theirs = keras_hub.models.BertTextClassifier.from_preset(str(path), preprocessor=None)
    else:
        theirs = keras_hub.models.BertBackbone.from_preset(str(path))
    backbone = getattr(theirs, "backbone", theirs)
    layers = ["embeddings_dropout"] + [f"transformer_layer_{i}" for i in range(model.config.num_layers)]
    states = keras.Model(backbone.input, [backbone.get_layer(name).output for name in layers])
    fed = {**batch, "padding_mask": batch["padding_mask"].astype("int32")}
    plain = {name: fed[name] for name in backbone.input}
    found = {
        "hidden_states": [ops.convert_to_numpy(x) for x in states(plain)],
        "pooled_output": ops.convert_to_numpy(backbone(plain)["pooled_output"]),
    }
    if model.task != "encoder":
        name = next(iter(model.output))
        values = ops.convert_to_numpy(theirs(fed if name == "mlm_logits" else plain))
        found[name] = values[:, 0] if name == "score" else values
    return f"keras_hub {keras_hub.__version__}", _chosen(model, found)


def _chosen(model, outputs):
    """Those outputs that the kbert model has too, hidden states one by one."""
    chosen = {f"hidden_states/{i}": x for i, x in enumerate(outputs["hidden_states"])}
    pooled = ("pooled_output",) if model.encoder.pooler is not None and "pooled_output" in outputs else ()
    heads = () if model.task == "encoder" else tuple(model.output)
    return chosen | {name: outputs[name] for name in (*pooled, *heads)}
