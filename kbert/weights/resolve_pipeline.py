"""What functions take as a pipeline: a pipeline, or a stored model."""

from kbert.pipelines.pipeline import Pipeline
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.source import check_source


def resolve_pipeline(what: str, source) -> Pipeline:
    """A pipeline as it is, or that of a stored model.

    Args:
        what: the function and its argument, for the message, such as "export: `pipeline`".
        source: `kbert.Pipeline`, or a source for `kbert.load_pretrained`.
    """
    if isinstance(source, Pipeline):
        return source
    check_source(what, source, "a kbert.Pipeline")
    return build_pipeline(source)
