"""The result of a fine-tuning."""

import dataclasses
import pathlib
from typing import Any

from kbert.pipelines.pipeline import Pipeline


@dataclasses.dataclass(frozen=True)
class FinetunedRun:
    """The result of `kbert.finetune`.

    Attributes:
        metrics: dict, the content of metrics.json: ``dev`` (the official scores), ``constant_answer`` (the baseline),
            ``evaluations`` (a dict for each, with its step), ``kept_step``, ``task`` …
        history: list of dicts, the logs of the training, with ``val_…`` for windows with an evaluation.
        pipeline: `kbert.Pipeline`, with the weights that are kept.
        path: `pathlib.Path` of the output, or None.
    """

    metrics: dict[str, Any]
    history: list[dict[str, Any]] = dataclasses.field(repr=False)
    pipeline: Pipeline
    path: pathlib.Path | None
