"""What `audit` checks besides the graph: the checkpoint, the warm-up requests, the batching parameters."""

import hashlib

import numpy as np

from kbert.serving.batching import read_batching_parameters
from kbert.serving.warmup import MAX_RECORDS, read_warmup
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile

_SMALLEST = 256  # bytes: smaller tensors may be equal by chance


def weight_problems(model):
    """Weights that are stored twice, or that the graph lacks; `model`: `SavedModelFile`. Yields str.

    Raises:
        FileNotFoundError, ValueError: files of the weights are missing or damaged.
    """
    prefix = model.path / "variables" / "variables"
    if not prefix.with_suffix(".index").is_file():
        if model.variable_bytes():
            yield "variables/ is missing"
        return
    checkpoint = TFCheckpointFile(prefix)
    seen, total = {}, 0
    for name, info in checkpoint.tensors.items():
        if info.dtype == "string" or name.startswith("save_counter"):
            continue
        value = np.asarray(checkpoint.read(name))
        total += value.nbytes
        first = seen.setdefault((value.shape, hashlib.sha256(value.tobytes()).digest()), name)
        if first != name and value.nbytes >= _SMALLEST and np.any(value != value.flat[0]):
            yield f"the weight {_short(name)} is stored a second time: {_short(first)}"
    declared = model.variable_bytes()
    if total != declared:
        yield f"the checkpoint holds {total:,} bytes of weights, the graph declares {declared:,}"


def warmup_problems(path, model):
    """Warm-up requests that a server could not answer; `model`: `SavedModelFile`. Yields str."""
    signatures, features = model.signatures, model.example_features()
    file = path / "assets.extra" / "tf_serving_warmup_requests"
    if not file.is_file():
        return
    try:
        records = list(read_warmup(file))
    except ValueError as error:
        yield f"{file.name}: {error}"
        return
    if len(records) > MAX_RECORDS:
        yield f"{file.name}: a server takes at most {MAX_RECORDS} records, not {len(records)}"
    for number, (kind, name, inputs) in enumerate(records):
        where = f"{file.name}, record {number}"
        if name not in signatures:
            yield f"{where}: there is no signature {name!r}"
        elif signatures[name].kind != kind:
            yield f"{where}: {name} is a {signatures[name].kind} signature, not for {kind}"
        elif kind == "predict":
            yield from (f"{where}, {name}: {problem}" for problem in _input_problems(inputs, signatures[name].inputs))
        else:
            yield from (f"{where}, {name}: {problem}" for problem in _example_problems(inputs, features))
    for name in sorted(set(signatures) - {name for _, name, _ in records}):
        yield f"{file.name}: no record for the signature {name}"


def _input_problems(inputs, specs):
    if set(inputs) != set(specs):
        yield f"expected the inputs {sorted(specs)}, not {sorted(inputs)}"
    for key in sorted(set(inputs) & set(specs)):
        dtype = "string" if inputs[key].dtype == object else inputs[key].dtype.name
        shape, wanted = inputs[key].shape, specs[key].shape
        fits = wanted is None or (
            len(shape) == len(wanted) and all(w in (None, s) for s, w in zip(shape, wanted, strict=True))
        )
        if dtype != specs[key].dtype or not fits:
            yield f"`{key}` must be {specs[key].dtype} {wanted}, not {dtype} {shape}"
    rows = {key: value.shape[0] for key, value in inputs.items() if value.ndim}
    if len(set(rows.values())) > 1:
        yield f"the inputs must have the same number of rows, not {rows}"


def _example_problems(examples, features):
    """`features`: for each parser in the graph its required features; an example must have those of one of them."""
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    if not examples:
        yield "no examples"
    for example in examples:
        try:
            names = set(tf.train.Example.FromString(example).features.feature)
        except DecodeError:
            yield f"{example[:40]!r} is no tf.Example"
            return
        if not any(required <= names for required in features):
            yield f"a tf.Example with {sorted(names)} lacks features: {[sorted(required) for required in features]}"
            return


def batching_problems(path):
    """Batching parameters that a server refuses. Yields str."""
    file = path / "batching_params.pbtxt"
    if not file.is_file():
        return
    try:
        parameters = read_batching_parameters(file)
    except ValueError as error:
        yield f"{file.name}: {error}"
        return
    sizes, largest = parameters.get("allowed_batch_sizes", []), parameters.get("max_batch_size", [None])[-1]
    if any(a >= b for a, b in zip(sizes, sizes[1:], strict=False)) or (sizes and sizes[-1] != largest):
        yield f"{file.name}: allowed_batch_sizes must rise up to max_batch_size ({largest}), not {sizes}"


def _short(name):
    return name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")
