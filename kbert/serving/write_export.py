"""A pipeline → ``saved_models/NAME/VERSION/``, for TensorFlow Serving: what `kbert.export` does.

From top to bottom: the work, and what stands beside the graph: warm-up requests, batching parameters, the model card.
"""

import contextlib
import dataclasses
import datetime
import hashlib
import logging
import pathlib
import shutil
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from kbert.checks import check_directory
from kbert.files import check_json, flush, is_partial, read_json, write_directory, write_json
from kbert.keras_compat import is_pattern
from kbert.locks import LOCK, locked_output
from kbert.models.write_saved_model import write_saved_model
from kbert.options import Arguments
from kbert.pipelines.pipeline import Pipeline
from kbert.serving.audit import AuditReport, audit
from kbert.serving.frozen_weights import FrozenWeights
from kbert.serving.saved_model_file import TensorSpec, check_version
from kbert.serving.signatures import ServingLimits, ServingSignature, signatures
from kbert.training.made_by import describe_maker, weights_hash
from kbert.versions import versions
from kbert.weights.build_pipeline import resolve_pipeline
from kbert.weights.origin import is_replaced, origin_of

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel

_LOGGER = logging.getLogger("kbert")


def write_export(asked: Arguments) -> pathlib.Path:
    """What `kbert.export` does."""
    directory = check_directory(asked.directory, "export: `directory`")
    check_json("export", metrics=asked.metrics, made_by=asked.made_by)
    pipeline = resolve_pipeline("export: `pipeline`", asked.pipeline)
    origin, metrics_of_run = provenance(pipeline.model)
    making = {
        "frozen_weights": asked.frozen_weights,
        "metrics": metrics_of_run if asked.metrics is None else asked.metrics,
        "made_by": origin | (asked.made_by or {}),
    }
    pipeline = pipeline.merged()
    if asked.precision is not None:
        pipeline = pipeline.in_precision(asked.precision)
    target = _next_version(directory.absolute(), asked.version)
    limits = ServingLimits(asked.max_request_bytes, asked.max_request_tokens)
    served = signatures(pipeline, asked.layers, limits)

    def write(partial):
        functions = {name: signature.function for name, signature in served.items()}
        if asked.frozen_weights:
            freeze = FrozenWeights(pipeline.model.weights).freeze
            functions = {name: freeze(function) for name, function in functions.items()}
        specs = {name: list(signature.inputs.values()) for name, signature in served.items()}
        write_saved_model(partial, {name: (functions[name], specs[name]) for name in served})
        set_methods(partial, {name: f"tensorflow/serving/{signature.kind}" for name, signature in served.items()})
        write_warmup(partial / "assets.extra" / "tf_serving_warmup_requests", served)
        (partial / "batching_params.pbtxt").write_text(_BATCHING, encoding="utf-8")
        report = audit(partial)
        report.require_clean()
        write_json(partial / "card.json", model_card(target, pipeline, served, limits, report, making))

    with locked_output(target):
        for abandoned in target.parent.glob(f".{target.name}.*.tmp"):  # of an export that was killed
            shutil.rmtree(abandoned)
        write_directory(target, write, needed=4 * pipeline.model.count_params(), replace=False)
    flush(target.parent.parent)  # the model's directory may be new
    if is_pattern(target):
        _LOGGER.warning(
            "%s: TensorFlow reads [ and \\ in a path as a pattern, so TensorFlow Serving and "
            "tf.saved_model.load need this export under another path. kbert reads it here.",
            target,
        )
    return target


def provenance(model: "BertModel") -> tuple[dict[str, Any], dict[str, Any]]:
    """What is known about weights that have not changed since kbert loaded or trained them: (how made, metrics)."""
    origin = origin_of(model)
    if origin is None:
        return {}, {}
    made_by = {} if origin.name is None else {"model": origin.name}
    if origin.path is None:
        return made_by | {"run": origin.run}, origin.metrics
    if origin.weights_sha256 is not None:
        made_by["weights_sha256"] = origin.weights_sha256
        if is_replaced(origin):  # what is there now says nothing of these weights
            return made_by, {}
    else:
        with contextlib.suppress(FileNotFoundError):  # the files may have gone since they were loaded
            made_by["weights_sha256"] = weights_hash(origin.path)
    if (maker := describe_maker(origin.path)) is not None:
        made_by["run"] = maker
    files = [origin.path / "metrics.json"]  # that a recipe wrote in the model's directory ...
    if origin.path.name == "model":
        files.append(origin.path.parent / "metrics.json")  # ... or in its run's
    file = next((file for file in files if file.is_file()), None)
    return made_by, {} if file is None else read_json(file)


def set_methods(directory: pathlib.Path, methods: dict[str, str]) -> None:
    """Sets method names of signatures, which TensorFlow 2 always calls ``…/predict``."""
    path = directory / "saved_model.pb"
    content = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for name, method in methods.items():
        content.meta_graphs[0].signature_def[name].method_name = method
    path.write_bytes(content.SerializeToString(deterministic=True))
    # It belongs to the unchanged file; no loader needs one.
    (directory / "fingerprint.pb").unlink(missing_ok=True)


def _next_version(directory: pathlib.Path, version: int | None) -> pathlib.Path:
    """The directory of a version that does not exist yet."""
    names = [entry.name for entry in directory.iterdir()] if directory.exists() else []
    entries = [name for name in names if not is_partial(name) and not name.endswith(LOCK)]
    numbers = [int(name) for name in entries if name.isdecimal()]
    if entries and not numbers:
        raise FileExistsError(
            "export: expected a new directory, or one that holds versions (1, 2, ...). "
            f"Received: {directory}, which holds {sorted(entries)[:8]}"
        )
    if version is None:
        version = max(numbers, default=0) + 1
    check_version("export", version)
    if version in numbers:
        raise FileExistsError(f"export: version {version} of {directory} exists. Versions: {sorted(numbers)}")
    return directory / str(version)


# How a server gathers requests into batches, and what it runs before it accepts any.

BATCH_SIZES = (1, 2, 4, 8, 16, 32)
_ALLOWED = "\n".join(f"allowed_batch_sizes: {size}" for size in BATCH_SIZES)
_BATCHING = f"""\
# tensorflow_model_server --enable_batching --enable_per_model_batching_parameters reads this file;
# with --batching_parameters_file=FILE a server takes another one for all its models.
# docs/deployment.md says how to choose.
max_batch_size {{ value: {BATCH_SIZES[-1]} }}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 100 }}
{_ALLOWED}
"""


def write_warmup(path: pathlib.Path, served: dict[str, ServingSignature]) -> None:
    """Writes a record for each signature and each of the `BATCH_SIZES` that its limits allow.

    The first request to a graph takes many times as long as the second, so a server runs these records first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    batches = {}  # names that share a signature share its batches
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, signature in served.items():
            if id(signature) not in batches:
                batches[id(signature)] = _allowed_batches(signature)
            for rows in batches[id(signature)]:
                writer.write(warmup_record(signature.kind, name, rows))


def warmup_record(kind: str, signature: str, rows: list[dict[str, Any]]) -> bytes:
    """A serialised PredictionLog with one request; rows map columns to strings or lists."""
    log = prediction_log_pb2.PredictionLog()
    if kind == "predict":
        request = log.predict_log.request
        for name in rows[0]:
            request.inputs[name].CopyFrom(tf.make_tensor_proto([row[name] for row in rows]))
    else:
        request = log.classify_log.request if kind == "classify" else log.regress_log.request
        for row in rows:
            request.input.example_list.examples.add().ParseFromString(encode_example(row))
    request.model_spec.name = "default"
    request.model_spec.signature_name = signature
    return log.SerializeToString(deterministic=True)


def encode_example(row: dict[str, str | bytes]) -> bytes:
    """A serialised tf.Example whose features are strings."""
    example = tf.train.Example()
    for name, value in row.items():
        example.features.feature[name].bytes_list.value.append(tf.compat.as_bytes(value))
    return example.SerializeToString(deterministic=True)


def _allowed_batches(signature: ServingSignature) -> list[list[dict[str, Any]]]:
    """The rows of each request within the limits; a batch is the beginning of every larger one."""
    batches = []
    sizes = list(BATCH_SIZES)
    for examples in (signature.examples, signature.examples[:1]):
        allowed = sizes.copy()
        while allowed and not _is_allowed(signature, _repeated(examples, allowed[-1])):
            allowed.pop()
        batches += [_repeated(examples, size) for size in allowed]
        sizes = sizes[len(allowed) :]
    if not batches:
        raise ValueError(f"export: the limits on requests do not allow this one: {signature.examples[0]}")
    return batches


def _repeated(examples: list, size: int) -> list:
    return [examples[i % len(examples)] for i in range(size)]


def _is_allowed(signature: ServingSignature, rows: list[dict[str, Any]]) -> bool:
    if signature.kind == "predict":
        columns = {name: [row[name] for row in rows] for name in signature.inputs}
    else:
        columns = {"inputs": [encode_example(row) for row in rows]}
    try:
        signature.preprocess(*(tf.constant(column, tf.string) for column in columns.values()))
    except tf.errors.InvalidArgumentError:
        return False
    return True


def model_card(
    target: pathlib.Path,
    pipeline: Pipeline,
    served: dict[str, ServingSignature],
    limits: ServingLimits,
    report: AuditReport,
    making: dict[str, Any],
) -> dict[str, Any]:
    """The content of card.json, which describes a version for people and programs."""
    name = target.parent.name
    settings = pipeline.settings()
    vocabulary = pipeline.tokenizer.vocabulary
    # The hash of vocab.txt, so that it is the one of manifest.json.
    file = "".join(f"{token}\n" for token in vocabulary).encode("utf-8")
    joined = {name: dataclasses.asdict(each) for name, each in pipeline.trained_columns.items() if len(each.names) > 1}
    return {
        "name": name,
        "version": int(target.name),
        "task": pipeline.model.task,
        "labels": settings.get("labels"),
        "settings": {key: value for key, value in sorted(settings.items()) if key != "labels"},
        **({"joined_columns": joined} if joined else {}),  # a client has to send their text
        "vocabulary": {"tokens": len(vocabulary), "sha256": hashlib.sha256(file).hexdigest()},
        "parameters": pipeline.model.count_params(),
        "precision": pipeline.model.dtype_policy.name,
        **making,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "limits": dataclasses.asdict(limits),
        "servers": {"tensorflow_model_server": "2.12 and later", "text_ops": sorted(report.servers)},
        "signatures": {
            key: {
                "method": signature.kind,
                "inputs": _tensors(report.signatures[key].inputs),
                "outputs": _tensors(report.signatures[key].outputs),
                "max_rows": signature.max_rows,
                "example": {
                    "path": f"/v1/models/{name}/versions/{target.name}:{signature.kind}",
                    "body": {"signature_name": key, **_example_request(signature)},
                },
            }
            for key, signature in served.items()
        },
    }


def _tensors(specs: dict[str, TensorSpec]) -> dict[str, Any]:
    return {name: {"dtype": spec.dtype, "shape": ["batch", *(spec.shape or ())[1:]]} for name, spec in specs.items()}


def _example_request(signature: ServingSignature) -> dict[str, Any]:
    """A request for the REST interface."""
    row = signature.examples[0]
    if signature.kind == "predict":
        return {"inputs": {column: [value] for column, value in row.items()}}
    return {"examples": [row]}
