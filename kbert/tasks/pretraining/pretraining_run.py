"""What `kbert.pretrain` returns."""

import dataclasses
import functools
import pathlib
from typing import Any


@dataclasses.dataclass(frozen=True)
class PretrainingRun:
    """A finished pre-training, or with `dry_run` its estimates.

    Attributes:
        metrics: dict: held-out losses and accuracies at the end, the unigram baseline, statistics of the data; for a
            dry run the estimates.
        history: list of dicts, the logs of every window of steps.
        model: `kbert.BertPretrainer` with the weights of the last step, compiled with the optimizer of the run; for
            plain rows, also where the run packed them.
        tokenizer: `kbert.BertTokenizer`.
        settings: `ModelSettings`.
        path: `pathlib.Path` of the output directory; None without one.

    Example::

        run = kbert.pretrain("records", size="tiny", steps=10_000)
        run.pipeline.predict(["The capital of France is [MASK]."])["tokens"]
    """

    metrics: dict[str, Any]
    history: list[dict[str, float]] = dataclasses.field(repr=False)
    model: Any = dataclasses.field(repr=False)
    tokenizer: Any = dataclasses.field(repr=False)
    settings: Any = dataclasses.field(repr=False)
    path: pathlib.Path | None = None

    @functools.cached_property
    def pipeline(self):
        """The fill-mask pipeline of the model, built on first use."""
        from kbert.pipelines.build import build_pipeline

        return build_pipeline(self.model, self.tokenizer, sequence_length=self.settings.sequence_length)
