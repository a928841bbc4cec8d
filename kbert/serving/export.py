"""A pipeline → ``saved_models/NAME/VERSION/``, for TensorFlow Serving."""

import errno
import os

from kbert.checks import check_bool, check_directory
from kbert.files import check_json, explain_full_disk, flush, flush_tree, is_partial, write_json
from kbert.models.write_saved_model import write_saved_model
from kbert.serving.audit import audit
from kbert.serving.batching import write_batching_parameters
from kbert.serving.card import model_card
from kbert.serving.check_version import check_version
from kbert.serving.frozen_weights import FrozenWeights
from kbert.serving.limits import ServingLimits
from kbert.serving.partial_version import partial_version
from kbert.serving.provenance import provenance
from kbert.serving.saved_model_file import set_methods
from kbert.serving.signatures import METHODS, signatures
from kbert.serving.warmup import write_warmup
from kbert.weights.resolve_pipeline import resolve_pipeline


def export(
    pipeline,
    directory,
    version=None,
    *,
    layers=None,
    precision=None,
    frozen_weights=False,
    max_request_bytes=ServingLimits.max_request_bytes,
    max_request_tokens=ServingLimits.max_request_tokens,
    metrics=None,
    made_by=None,
):
    """Writes a SavedModel that maps raw strings to answers, with everything that a server needs.

    To run, it needs neither kbert nor Keras, only TensorFlow and the ops of tensorflow-text that every stock TensorFlow
    Serving since 2.12 links. There are no lookup tables, every weight is stored once, and the first dimension of every
    output is the batch, so that the server may batch. The version appears when it is complete (it is written under
    another name inside `directory`, audited, flushed to the disk and renamed), so a server may watch the directory.

    A version holds the SavedModel with its signatures (``serving_default``, which is the pipeline itself, and those of
    its task: `kbert.serving.signatures`), warm-up requests for each of them, ``batching_params.pbtxt`` and
    ``card.json``.

    Args:
        pipeline: `kbert.Pipeline`, or a source for `kbert.load_pretrained`.
        directory: the model's directory, such as ``saved_models/sentiment``; holds one directory for each version.
        version: positive int below 2**63; None: one more than the highest there, or 1.
        layers: of an encoder, the hidden states that the signature ``features`` gives; None: the last four.
        precision: "float32" or "bfloat16", of weights and computation; None: as the pipeline computes. In bfloat16 the
            weights take half the space, and processors with instructions for it answer faster, except to a single short
            text; probabilities and embeddings differ from float32 in the third digit
            (docs/serving.md).
        frozen_weights: bool, whether the weights are constants in the graph instead of variables: a short text is
            answered faster on a CPU, but loading takes longer, and every signature that is used has its own copy of the
            weights in memory (docs/serving.md). At most 2 GB.
        max_request_bytes: limit on the bytes of text in a request, over all strings of all rows.
        max_request_tokens: limit on the tokens that the model runs for a request: rows × sequence length, padding
            included, where a long text has a row for each of its windows and a question one for each choice.
        metrics: dict of the model's metrics, for the card; of strings, finite numbers, bools, None, lists and dicts.
            None: those of the run that trained the model.
        made_by: dict of what else the card should say on how the model was made, likewise. The name of the model, the
            hash of its weights, and recipe, settings and inputs of its run are in the card already, if kbert loaded or
            trained the model and its weights have not been changed since.

    Returns:
        pathlib.Path of the version written.

    Raises:
        TypeError: neither a pipeline nor a source; `directory` is no path.
        FileNotFoundError: no such source.
        ValueError: a version or limit that is not a positive integer or exceeds int64; `frozen_weights` that is not a
            bool; `metrics` or `made_by` that are not a dict that JSON holds; `layers` that the encoder does not have;
            an unknown precision, or one for a quantised model; frozen weights of more than 2 GB; a model that a stock
            server would not run (`kbert.audit`).
        FileExistsError: the version exists, or the directory holds other things and no version.
        NotADirectoryError: `directory` is a file, or below one.
        OSError: the disk is full; the incomplete version is deleted.

    Source: TensorFlow Serving's convention for model directories.

    Example::

        path = kbert.export("runs/sentiment", "saved_models/sentiment")
        tf.saved_model.load(path).signatures["serving_default"](text=tf.constant(["A charming journey."]))
    """
    directory = check_directory(directory, "export: `directory`")
    frozen_weights = check_bool(frozen_weights, "export: `frozen_weights`")
    check_json("export", metrics=metrics, made_by=made_by)
    pipeline = resolve_pipeline("export: `pipeline`", pipeline)
    known, scores = provenance(pipeline.model)
    metrics, made_by = scores if metrics is None else metrics, known | (made_by or {})
    pipeline = pipeline.merged()
    if precision is not None:
        pipeline = pipeline.in_precision(precision)
    target = _target(directory.absolute(), version)
    limits = ServingLimits(max_request_bytes, max_request_tokens)
    named = signatures(pipeline, layers, limits)
    freeze = FrozenWeights(pipeline.model.weights).freeze if frozen_weights else lambda function: function
    with explain_full_disk(target, 4 * pipeline.model.count_params()), partial_version(target.parent) as partial:
        endpoints = {name: (freeze(one.function), list(one.inputs.values())) for name, one in named.items()}
        write_saved_model(partial, endpoints)
        set_methods(partial, {name: METHODS[one.kind] for name, one in named.items()})
        write_warmup(partial / "assets.extra" / "tf_serving_warmup_requests", named)
        write_batching_parameters(partial / "batching_params.pbtxt")
        report = audit(partial)
        report.require_clean()
        while True:
            card = model_card(
                target.parent.name,
                int(target.name),
                pipeline,
                named,
                limits,
                report,
                metrics,
                made_by,
                frozen_weights=frozen_weights,
            )
            write_json(partial / "card.json", card)
            if _appears(partial, target):
                return target
            target = _target(target.parent, version)  # another export took the number meanwhile


def _appears(partial, target):
    """Flushes and renames what was written; False if the version is there already."""
    flush_tree(partial)
    try:
        os.rename(partial, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    flush(target.parent)
    flush(target.parent.parent)  # its entry may be new too
    return True


def _target(directory, version):
    names = [entry.name for entry in directory.iterdir()] if directory.exists() else []
    entries = [name for name in names if not is_partial(name)]
    versions = [int(name) for name in entries if name.isdecimal()]
    if entries and not versions:
        raise FileExistsError(
            f"export: expected a new directory, or one that holds versions (1, 2, ...). Received: {directory}, which "
            f"holds {sorted(entries)[:8]}"
        )
    if version is None:
        version = max(versions, default=0) + 1
    check_version("export", version)
    if version in versions:
        raise FileExistsError(f"export: version {version} of {directory} exists. Versions: {sorted(versions)}")
    return directory / str(version)
