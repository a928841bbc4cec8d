"""A model as it is stored → the pipeline that answers files."""

from kbert.pipelines.registry import task_pipeline
from kbert.training.hardware import choose_hardware
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained


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
