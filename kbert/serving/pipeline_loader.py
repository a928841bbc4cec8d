"""What answers a file: a stored model, or an export of one."""

import functools
from collections.abc import Callable

from kbert.pipelines.registry import task_pipeline
from kbert.serving.exported_pipeline import ExportedPipeline
from kbert.serving.saved_model_file import find_export
from kbert.training.hardware import choose_hardware
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained
from kbert.weights.source import check_source


def load_pipeline(source, precision="auto", **options):
    """The pipeline of a stored model, on one device, with its task's options for prediction files.

    Args:
        source: as for `kbert.load_pretrained`.
        precision: of the arithmetic, as for `kbert.training.choose_hardware`.
        **options: of `kbert.build_pipeline`, instead of those stored with the model.
    """
    with choose_hardware("one", precision).scope():
        model = load_pretrained(source)
        return build_pipeline(model, **{**task_pipeline(model.task).prediction_options, **options})


def pipeline_loader(source, precision="auto", **options) -> Callable:
    """A function without arguments that loads the pipeline, and that processes can hand to each other.

    Args:
        source: as for `kbert.load_pretrained`, or the path of a SavedModel of `kbert.export`.
        precision, **options: as for `load_pipeline`; a SavedModel has its own.

    Returns:
        a function that returns a `kbert.Pipeline` or an `ExportedPipeline`.

    Raises:
        TypeError: neither a path nor a name.
        ValueError: a SavedModel with a `precision` or options.
    """
    check_source("pipeline_loader: `source`", source, "the path of a SavedModel")
    if find_export(source) is None:
        return functools.partial(load_pipeline, source, precision, **options)
    if options or precision != "auto":
        received = sorted(options) + ["precision"] * (precision != "auto")
        raise ValueError(f"{source} is a SavedModel, whose settings are fixed. Received: {received}")
    return functools.partial(ExportedPipeline, source)
