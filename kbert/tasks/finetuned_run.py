"""What a fine-tuning gives."""

import dataclasses
import pathlib
from typing import Any

from kbert.pipelines.pipeline import Pipeline


@dataclasses.dataclass(frozen=True)
class FinetunedRun:
    """What a fine-tuning gave.

    Attributes:
        metrics: dict, what metrics.json holds: ``dev`` (the official scores), ``constant_answer`` (what a model has to
            beat), ``evaluations`` (one dict for each, with its step), ``kept_step``, ``task`` …
        history: list of dicts, the logs of the training, with ``val_…`` where there was an evaluation.
        pipeline: `kbert.Pipeline`, with the weights that are kept.
        path: `pathlib.Path` of the output, or None.
    """

    metrics: dict[str, Any]
    history: list[dict[str, Any]]
    pipeline: Pipeline
    path: pathlib.Path | None
