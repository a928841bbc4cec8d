"""Would a stock TensorFlow Serving run this SavedModel?

From top to bottom: the report, then checks of the graph, the signatures, and the files beside it.
"""

import collections
import dataclasses
import hashlib
import math
import os
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from kbert.checks import check_path
from kbert.keras_compat import is_tensorflow_op
from kbert.serving.grpc_transport import MESSAGES
from kbert.serving.saved_model_file import SavedModelFile, Signature, TensorSpec, find_export
from kbert.serving.server_ops import ROLE_OPS, TEXT_OPS, forbidden
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile

_OLDEST = "2.12"  # the oldest server that kbert's exports run in


@dataclasses.dataclass(frozen=True)
class AuditReport:
    """The result of `audit`.

    Attributes:
        path: the version that was read.
        ops: dict of op → how often it occurs in the graph and its functions.
        servers: dict of each op that is not TensorFlow's own → first server that links it, or None.
        signatures: dict of name → `kbert.serving.Signature`.
        problems: list of str; empty if a stock server runs the model.

    Raises:
        ValueError: on `require_clean`, if there are problems.
    """

    path: pathlib.Path
    ops: dict[str, int]
    servers: dict[str, str | None]
    signatures: dict[str, Signature]
    problems: list[str]

    def lines(self) -> Iterator[str]:
        """The report as text, line by line."""
        yield f"{self.path}: {len(self.ops)} ops, {len(self.signatures)} signatures"
        core = sorted(op for op in self.ops if op not in self.servers)
        where = f"in every server since {_OLDEST} unless named below"
        yield f"  core TensorFlow ({len(core)}, {where}): {' '.join(core)}"
        for op, since in sorted(self.servers.items()):
            servers = f"tensorflow_model_server {since} and later" if since else "no stock server"
            yield f"  {op:40s} {servers}"
        for name, signature in self.signatures.items():
            tensors = f"{', '.join(signature.inputs)} -> {', '.join(signature.outputs)}"
            yield f"  signature {name:20s} {signature.kind}: {tensors}"
        for problem in self.problems:
            yield f"  PROBLEM {problem}"
        if not self.problems:
            yield f"  A stock tensorflow_model_server {_OLDEST} or later runs it."

    def require_clean(self) -> None:
        """Raises a ValueError with all problems, if there are any."""
        if self.problems:
            raise ValueError(f"audit of {self.path}: " + "; ".join(self.problems))


def audit(saved_model: str | os.PathLike) -> AuditReport:
    """Checks that a stock TensorFlow Serving can run an exported SavedModel.

    The model is read, not run. These are checked:

    - Every op of every function computes, and is linked into the stock servers since 2.12. Only the SavedModel's own
      functions that restore and save its variables read and write files.
    - The signatures include a default, have the batch as first dimension everywhere, and use no names that REST
      reserves.
    - Each weight is stored once.
    - The warm-up requests match the signatures.
    - A server accepts the batching parameters.

    Args:
        saved_model: path of one version (``saved_models/NAME/1``), or ``saved_models/NAME``: its highest version.

    Returns:
        `AuditReport`.

    Raises:
        TypeError: no path.
        FileNotFoundError, ValueError: no SavedModel, or a damaged one.

    Source: tensorflow/serving, model_servers/BUILD (SUPPORTED_TENSORFLOW_OPS) and batching_session.cc.

    Example::

        report = kbert.audit("saved_models/reviews")
        report.require_clean()
    """
    directory = check_path(saved_model, "audit: `saved_model`", "the path of a SavedModel")
    path = find_export(directory) or directory
    model = SavedModelFile(path)
    ops = dict(sorted(model.ops().items()))
    servers = {op: TEXT_OPS.get(op) for op in ops if op in TEXT_OPS or not is_tensorflow_op(op)}
    problems = [
        *_op_problems(model, servers),
        *_signature_problems(model.signatures),
        *_weight_problems(model),
        *_warmup_problems(model),
        *batching_problems(path),
    ]
    return AuditReport(path, ops, servers, model.signatures, problems)


# Each of the following checks yields problems, as sentences.


def _op_problems(model: SavedModelFile, servers: dict[str, str | None]) -> Iterator[str]:
    refused = {op for role, body in model.bodies() for op in body if op not in ROLE_OPS[role]}
    for op in sorted(refused):
        if op in servers:
            since = servers[op]
            if since is None:
                yield f"{op} is in no stock server"
            elif _number(since) > _number(_OLDEST):
                yield f"{op} is in no server before {since}"
        elif reason := forbidden(op):
            yield f"{op} {reason}"
    for name in model.compiled_functions():
        yield f"the function {name} is compiled by XLA, which has no strings"
    for name in model.asset_names():
        yield f"the graph reads the file assets/{name}"
    for file in sorted(model.path.glob("saved_model.*")):
        if file.name != "saved_model.pb":
            yield f"{file.name} stands beside saved_model.pb, and a loader may read it instead"


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _signature_problems(signatures: dict[str, Signature]) -> Iterator[str]:
    if "serving_default" not in signatures:
        yield f"there is no signature serving_default, only {list(signatures)}"
    for name, signature in signatures.items():
        for place, specs in (("input", signature.inputs), ("output", signature.outputs)):
            if not specs:
                yield f"the signature {name} has no {place}"
            for key, spec in specs.items():
                if not spec.shape or spec.shape[0] is not None:
                    yield f"{name}: the {place} {key} must have the batch first; its shape is {spec.shape}"
        for key in signature.outputs:
            if key.endswith("_bytes"):
                yield f"{name}: REST encodes outputs named *_bytes in base64; rename {key}"
        yield from _method_problems(name, signature)


_OUTPUTS = {  # kind → its outputs
    "classify": {"classes": "string", "scores": "float32"},
    "regress": {"outputs": "float32"},
}


def _method_problems(name: str, signature: Signature) -> Iterator[str]:
    kind = signature.kind
    if kind == "predict":
        return
    if kind not in _OUTPUTS:
        yield f"{name}: unknown method {signature.method!r}"
        return
    inputs = {key: spec.dtype for key, spec in signature.inputs.items()}
    outputs = {key: spec.dtype for key, spec in signature.outputs.items()}
    if inputs != {"inputs": "string"}:
        yield f"{name}: a {kind} signature takes one input, `inputs` (serialised tf.Examples), not {inputs}"
    if outputs != _OUTPUTS[kind]:
        yield f"{name}: a {kind} signature gives {_OUTPUTS[kind]}, not {outputs}"


_SMALLEST = 256  # bytes: smaller tensors may be equal by chance


def _weight_problems(model: SavedModelFile) -> Iterator[str]:
    """Weights that are stored twice, or that the graph lacks."""
    declared = model.variable_bytes()
    prefix = model.path / "variables" / "variables"
    if not prefix.with_suffix(".index").is_file():
        if declared:
            yield "variables/ is missing"
        return
    checkpoint = TFCheckpointFile(prefix)
    names = model.variable_names()
    equal = collections.defaultdict(list)  # (shape, hash) → the tensors that have it
    total = 0
    for name, info in checkpoint.tensors.items():
        if info.dtype == "string" or name.startswith("save_counter"):
            continue
        value = np.asarray(checkpoint.read(name))
        total += value.nbytes
        content = value.shape, hashlib.sha256(value.tobytes()).digest()
        if value.nbytes >= _SMALLEST and np.any(value != value.flat[0]):
            name = _short(name)
            for first in equal[content]:
                if not _are_of_two_blocks(names.get(first, first), names.get(name, name)):
                    yield f"the weight {name} is stored a second time: {first}"
                    break
            equal[content].append(name)
    if total != declared:
        yield f"the checkpoint holds {total:,} bytes of weights, the graph declares {declared:,}"


def _are_of_two_blocks(first: str, second: str) -> bool:
    """Whether two weights have one place in two blocks, which may be copies: `grow_model` makes such."""
    return first != second and len({re.sub(r"encoder_block_\d+/", "", name) for name in (first, second)}) == 1


def _short(name: str) -> str:
    return name.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")


_MOST_RECORDS = 1000  # that a server accepts


def _warmup_problems(model: SavedModelFile) -> Iterator[str]:
    """Warm-up requests that a server could not answer."""
    signatures = model.signatures
    file = model.path / "assets.extra" / "tf_serving_warmup_requests"
    if not file.is_file():
        return
    try:
        requests = read_warmup(file)
    except ValueError as error:
        yield f"{file.name}: {error}"
        return
    if len(requests) > _MOST_RECORDS:
        yield f"{file.name}: a server takes at most {_MOST_RECORDS} records, not {len(requests)}"
    for number, (kind, name, inputs) in enumerate(requests):
        where = f"{file.name}, record {number}"
        if name not in signatures:
            yield f"{where}: there is no signature {name!r}"
        elif signatures[name].kind != kind:
            yield f"{where}: {name} is a {signatures[name].kind} signature, not for {kind}"
        elif kind == "predict":
            for problem in _input_problems(inputs, signatures[name].inputs):
                yield f"{where}, {name}: {problem}"
        else:
            for problem in _example_problems(inputs, model.example_features()):
                yield f"{where}, {name}: {problem}"
    for name in sorted(set(signatures) - {name for _, name, _ in requests}):
        yield f"{file.name}: no record for the signature {name}"


def read_warmup(path: str | os.PathLike) -> list[tuple[str, str, dict | list]]:
    """(kind, signature name, inputs) of each record of a warm-up file.

    For predict the inputs are TensorProtos by name, else a list of tf.Examples. No values are expanded, since a short
    record may stand for very many.
    """
    try:
        records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    except tf.errors.DataLossError as error:
        raise ValueError(f"expected a TFRecord file. Received: {error.message}") from error
    size = os.path.getsize(path)
    if size and not records:  # a file shorter than a record's header: to TensorFlow one without any
        raise ValueError(f"expected a TFRecord file. Received: {size} bytes without a record")
    return [_request(record) for record in records]


def _request(record: bytes) -> tuple[str, str, dict | list]:
    try:
        log = prediction_log_pb2.PredictionLog.FromString(record)
    except DecodeError as error:
        raise ValueError(f"expected a PredictionLog. Received: {record[:40]!r} ({error})") from None
    kind = str(log.WhichOneof("log_type")).removesuffix("_log")
    if kind == "predict":
        request = log.predict_log.request
        inputs = dict(sorted(request.inputs.items()))
    elif kind in ("classify", "regress"):
        request = log.classify_log.request if kind == "classify" else log.regress_log.request
        inputs = list(request.input.example_list.examples)
    else:
        raise ValueError(
            f"expected a PredictionLog of predict, classify or regress. Received: {record[:40]!r} ({kind})"
        )
    return kind, request.model_spec.signature_name or "serving_default", inputs


def _input_problems(tensors: dict, specs: dict[str, TensorSpec]) -> Iterator[str]:
    if set(tensors) != set(specs):
        yield f"expected the inputs {sorted(specs)}, not {sorted(tensors)}"
    rows = {}
    for key, tensor in tensors.items():
        shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
        if shape:
            rows[key] = shape[0]
        if key not in specs:
            continue
        spec = specs[key]
        fits = spec.shape is None or (
            len(shape) == len(spec.shape) and all(size in (None, n) for size, n in zip(spec.shape, shape, strict=True))
        )
        dtype = _dtype_name(tensor.dtype)
        if dtype != spec.dtype or not fits:
            yield f"`{key}` must be {spec.dtype} {spec.shape}, not {dtype} {shape}"
        elif dtype == "string" and len(tensor.string_val) != math.prod(shape):
            yield f"`{key}` must have {math.prod(shape)} strings, not {len(tensor.string_val)}"
    if len(set(rows.values())) > 1:
        yield f"the inputs must have the same number of rows, not {rows}"


def _dtype_name(number: int) -> str:
    try:
        return tf.as_dtype(number).name
    except TypeError:
        return f"DataType {number}"


def _example_problems(examples: list, parsers: list[set[str]]) -> Iterator[str]:
    """Problems of tf.Examples; each must have the features that one of the `parsers` needs."""
    if not examples:
        yield "no examples"
    for example in examples:
        names = set(example.features.feature)
        if not any(required <= names for required in parsers):
            needed = [sorted(required) for required in parsers]
            yield f"a tf.Example with {sorted(names)} lacks features: {needed}"
            return


def batching_problems(path: pathlib.Path) -> Iterator[str]:
    """Batching parameters that a server refuses."""
    file = path / "batching_params.pbtxt"
    if not file.is_file():
        return
    try:
        parameters = text_format.Parse(file.read_bytes(), MESSAGES["BatchingParameters"]())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        yield f"{file.name}: expected TensorFlow Serving's BatchingParameters: {error}"
        return
    # A server that splits a request of more rows forms batches of the second size.
    name = "max_execution_batch_size" if parameters.enable_large_batch_splitting.value else "max_batch_size"
    sizes, largest = list(parameters.allowed_batch_sizes), getattr(parameters, name).value
    if sizes and not (sizes == sorted(set(sizes)) and sizes[-1] == largest):
        yield f"{file.name}: allowed_batch_sizes must rise up to {name} ({largest}), not {sizes}"
