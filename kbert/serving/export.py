"""A pipeline → ``saved_models/NAME/VERSION/``, as TensorFlow Serving takes it."""

import os
import pathlib
import shutil
import uuid

from kbert.pipelines.pipeline import Pipeline
from kbert.models.saved_model import write_saved_model


def export(pipeline, directory, version=None):
    """Writes a SavedModel with the signature ``serving_default`` from raw strings to answers.

    It needs neither kbert nor Keras to run: TensorFlow and the ops of tensorflow-text that every stock TF Serving since
    2.12 links. There are no lookup tables, every weight is stored once, and the first dimension of every output is the
    batch, so that the server may batch. The version appears whole or not at all (it is written under another name and
    renamed): a server may watch the directory.

    Args:
        pipeline: `kbert.Pipeline`.
        directory: the model's directory, such as ``saved_models/sentiment``; holds one directory for each version.
        version: positive int; None: one more than the highest there, or 1.

    Returns:
        pathlib.Path of the version written.

    Raises:
        TypeError: not a pipeline.
        ValueError: a version that is no positive integer.
        FileExistsError: the version exists, or the directory holds other things and no version.

    Source: TensorFlow Serving's convention for model directories.

    Example::

        path = kbert.export(pipeline, "saved_models/sentiment")
        tf.saved_model.load(path).signatures["serving_default"](text=tf.constant(["A charming journey."]))
    """
    if not isinstance(pipeline, Pipeline):
        raise TypeError(f"export: expected a kbert.Pipeline (kbert.build_pipeline makes one). Received: {pipeline!r}")
    target = _target(pathlib.Path(directory).absolute(), version)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the directory of versions, not in it: a server would take any number there for a version.
    temporary = target.parent.parent / f".{target.parent.name}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        write_saved_model(temporary, {"serve": (_named_columns(pipeline), _signature(pipeline))})
        os.rename(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _signature(pipeline):
    return list(pipeline.string_signature().values())


def _named_columns(pipeline):
    """The pipeline as a function of its columns, so that each is an input of the signature under its own name."""

    def serve(*columns):
        return pipeline(dict(zip(pipeline.preprocessor.input_names, columns, strict=True)), training=False)

    return serve


def _target(directory, version):
    if directory.exists() and not directory.is_dir():
        raise FileExistsError(f"export: expected a directory of versions. Received: {directory}, which is a file")
    entries = [entry.name for entry in directory.iterdir()] if directory.exists() else []
    versions = [int(name) for name in entries if name.isdecimal()]
    if entries and not versions:
        raise FileExistsError(
            f"export: expected a new directory, or one that holds versions (1, 2, ...). Received: {directory}, which "
            f"holds {sorted(entries)[:8]}"
        )
    if version is None:
        version = max(versions, default=0) + 1
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ValueError(f"export: `version` must be a positive integer. Received: {version!r}")
    if version in versions:
        raise FileExistsError(f"export: version {version} of {directory} exists. Versions: {sorted(versions)}")
    return directory / str(version)
