"""A model for TensorFlow Serving as one call: `kbert.export`. `write_export` does the work."""

import pathlib
from typing import Any, Literal

from kbert.options import Count, PathLike, verb

MAX_REQUEST_BYTES, MAX_REQUEST_TOKENS = 2**20, 2**17


def _run(arguments) -> pathlib.Path:
    from kbert.serving.write_export import write_export  # not above: it loads TensorFlow

    return write_export(arguments)


@verb(_run)
def export(
    pipeline: PathLike | Any,
    directory: PathLike | Any,
    version: Count | None = None,
    *,
    layers: list[int] | None = None,
    precision: Literal["float32", "bfloat16"] | None = None,
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
            text. Probabilities and embeddings differ from float32 in the third digit (docs/export-options.md).
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
        TypeError: neither a pipeline nor a source; `directory` is no path.
        FileNotFoundError: no such source.
        ValueError: a version or limit that is not a positive integer or exceeds int64; `frozen_weights` that is not a
            bool; `metrics` or `made_by` that are not a dict that JSON holds; `layers` that the encoder does not have;
            an unknown precision, or one for a quantised model; frozen weights of more than 2 GB; a model that a stock
            server would not run (`kbert.audit`).
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
