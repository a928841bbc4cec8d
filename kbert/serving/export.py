"""A pipeline → ``saved_models/NAME/VERSION/``, for TensorFlow Serving: `kbert.export`."""

import logging
import pathlib
import shutil
from typing import Any, Literal

from kbert.aliases import ModelSource, PathLike
from kbert.files import is_partial
from kbert.locks import LOCK
from kbert.options import Count, checked
from kbert.serving.limits import MAX_REQUEST_BYTES, MAX_REQUEST_TOKENS, ServingLimits
from kbert.serving.saved_model_file import check_version

_LOGGER = logging.getLogger("kbert")


@checked
def export(
    pipeline: ModelSource,
    directory: PathLike,
    version: Count | None = None,
    *,
    layers: list[int] | None = None,
    precision: Literal["float32", "bfloat16", "int8"] | None = None,
    calibration: Any = None,
    evaluate: Any = None,
    frozen_weights: bool = False,
    max_request_bytes: Count = MAX_REQUEST_BYTES,
    max_request_tokens: Count = MAX_REQUEST_TOKENS,
    metrics: dict | None = None,
    made_by: dict | None = None,
) -> pathlib.Path:
    """Writes a SavedModel that maps raw strings to answers, with everything that a server needs.

    To run, it needs neither kbert nor Keras, only TensorFlow and the ops of tensorflow-text that every stock TensorFlow
    Serving since 2.12 links. There are no lookup tables, every weight is stored once, and the first dimension of every
    output is the batch, so that the server may batch.

    A version is written under another name inside `directory`, audited, flushed to the disk and renamed. It appears
    only when it is complete, so a server may watch the directory.

    A version holds the SavedModel with its signatures: ``serving_default``, which is the pipeline itself, and the
    signatures of its task (`kbert.serving.signatures`). Beside it are warm-up requests for each signature,
    ``batching_params.pbtxt`` and ``card.json``.

    Args:
        pipeline: `kbert.Pipeline`, or a source for `kbert.load_pretrained`.
        directory: the model's directory, such as ``saved_models/sentiment``; holds one directory for each version.
        version: positive int below 2**63; None: one more than the highest there, or 1.
        layers: of an encoder, the hidden states that the signature ``features`` gives; None: the last four.
        precision: "float32" or "bfloat16", of weights and computation; None: as the pipeline computes. In bfloat16 the
            weights take half the space. Processors with instructions for it answer faster, except to a single short
            text. Probabilities and embeddings differ from float32 in the third digit (docs/export-options.md). In
            "int8" the dense layers of the encoder blocks compute with 8-bit integers. That is about twice as fast on
            x86-64 servers since 2.17. The card says how far the answers to `calibration` differ from float32.
        calibration: Texts for "int8", about 128 of the kind that the model will answer: what `pipeline.predict` takes,
            or the path of a file that `kbert predict` reads.
        evaluate: Labeled examples for "int8", as `kbert.evaluate` takes them. The card then has the scores of the
            float32 and the int8 model.
        frozen_weights: whether the weights are constants in the graph instead of variables. A short text is then
            answered faster on a CPU, but loading takes longer, and every signature that is used has its own copy of the
            weights in memory (docs/export-options.md). At most 2 GB.
        max_request_bytes: limit on the bytes of text in a request, over all strings of all rows.
        max_request_tokens: limit on the tokens that the model runs for a request: rows × sequence length, padding
            included. A long text has a row for each of its windows, a question one for each choice.
        metrics: of the model, for the card: a dict of strings, finite numbers, bools, None, lists and dicts. None: the
            metrics of the run that trained the model.
        made_by: dict of such values: what else the card should say on how the model was made. The card already has the
            name of the model, the hash of its weights, and recipe, settings and inputs of its run, if kbert loaded or
            trained the model and its weights have not changed since.

    Returns:
        pathlib.Path of the version written.

    Raises:
        TypeError: `pipeline` is neither a pipeline nor a source.
        FileNotFoundError: no such source.
        ValueError: an argument of another type; a version or limit that exceeds int64; `metrics` or `made_by` that are
            not a dict that JSON holds; `layers` that the encoder does not have; a precision for a quantised model;
            "int8" without `calibration`, or with texts on which the model predicts nothing; frozen weights of more than
            2 GB; a model that a stock server would not run (`kbert.audit`).
        SetupError: TensorFlow on this machine cannot compute int8 products.
        FileExistsError: the version exists, or the directory holds other things and no version.
        BlockingIOError: another export is writing this version.
        NotADirectoryError: `directory` is a file, or below one.
        OSError: the disk is full; the incomplete version is deleted.

    Source: TensorFlow Serving's convention for model directories.

    Example::

        path = kbert.export("runs/sentiment", "saved_models/sentiment")
        serve = tf.saved_model.load(path).signatures["serving_default"]
        serve(text=tf.constant(["A charming journey."]))
    """
    from kbert.checks import check_directory
    from kbert.files import check_json, flush, write_directory, write_json
    from kbert.keras_compat import is_pattern
    from kbert.locks import locked_output
    from kbert.models.write_saved_model import write_saved_model
    from kbert.serving.audit import audit
    from kbert.serving.card import model_card, provenance
    from kbert.serving.frozen_weights import FrozenWeights
    from kbert.serving.int8_export import int8_export
    from kbert.serving.signatures import signatures
    from kbert.serving.warmup import BATCHING, set_methods, write_warmup
    from kbert.weights.build_pipeline import resolve_pipeline

    check_int8_inputs(precision, calibration, evaluate)
    directory = check_directory(directory, "export: `directory`")
    check_json("export", metrics=metrics, made_by=made_by)
    pipeline = resolve_pipeline("export: `pipeline`", pipeline)
    origin, metrics_of_run = provenance(pipeline.model)
    making = {
        "frozen_weights": frozen_weights,
        "metrics": metrics_of_run if metrics is None else metrics,
        "made_by": origin | (made_by or {}),
    }
    pipeline = pipeline.merged()
    if precision == "int8":
        pipeline, making["int8"] = int8_export(pipeline, calibration, evaluate)
        making["precision"] = "int8"
    elif precision is not None:
        pipeline = pipeline.in_precision(precision)
    target = _next_version(directory.absolute(), version)
    limits = ServingLimits(max_request_bytes, max_request_tokens)
    served = signatures(pipeline, layers, limits)

    def write(partial):
        functions = {name: signature.function for name, signature in served.items()}
        if frozen_weights:
            freeze = FrozenWeights(pipeline.model.weights).freeze
            functions = {name: freeze(function) for name, function in functions.items()}
        specs = {name: list(signature.inputs.values()) for name, signature in served.items()}
        write_saved_model(partial, {name: (functions[name], specs[name]) for name in served})
        set_methods(partial, {name: f"tensorflow/serving/{signature.kind}" for name, signature in served.items()})
        write_warmup(partial / "assets.extra" / "tf_serving_warmup_requests", served)
        (partial / "batching_params.pbtxt").write_text(BATCHING, encoding="utf-8")
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


def check_int8_inputs(precision: str | None, calibration: Any, evaluate: Any) -> None:
    """Raises ValueError if int8 lacks its calibration texts, or another precision has texts of int8."""
    if precision != "int8" and (calibration is not None or evaluate is not None):
        raise ValueError('export: `calibration` and `evaluate` need precision="int8".')
    if precision == "int8" and calibration is None:
        raise ValueError(
            'export: precision="int8" needs `calibration`: about 128 texts of the kind that the model will answer, or '
            "the path of a file that kbert predict reads."
        )


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
