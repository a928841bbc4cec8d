"""What functions take as a pipeline."""

from kbert.pipelines.pipeline import Pipeline
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.source import check_source


def resolve_pipeline(what: str, source) -> Pipeline:
    """A pipeline as it is, or a stored model's; messages begin with `what`, such as "export: `pipeline`"."""
    if isinstance(source, Pipeline):
        return source
    check_source(what, source, "a kbert.Pipeline")
    return build_pipeline(source)
