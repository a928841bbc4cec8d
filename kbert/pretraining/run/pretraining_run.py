"""What `kbert.pretrain` returns, and the figures in it."""

import dataclasses
import functools
import pathlib
from typing import Any

from kbert.training.history import training_minutes
from kbert.training.log_names import readable_logs


@dataclasses.dataclass(frozen=True)
class PretrainingRun:
    """A finished pre-training, or with `dry_run` its estimates.

    Attributes:
        metrics: dict: held-out losses and accuracies at the end, the unigram baseline, statistics of the data; for a
            dry run the estimates.
        history: list of dicts, the logs of every window of steps.
        model: `kbert.BertPretrainer` with the weights of the last step, compiled with the optimizer of the run; for
            plain rows, also where the run packed them.
        tokenizer: `kbert.BertTokenizer`; None of batches on another backend than TensorFlow's.
        settings: `ModelSettings`.
        path: `pathlib.Path` of the output directory; None without one.
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
        from kbert.weights.build_pipeline import build_pipeline

        return build_pipeline(self.model, self.tokenizer, sequence_length=self.settings.sequence_length)


def measure_run(trained, evaluation, history, steps, board, about_data) -> dict[str, Any]:
    """The metrics of a run whose steps are done: scores on the held-out batches, what it took, and what else is known.

    Args:
        history: list of dicts of `fit_steps`, empty but on the chief. A record of step 0 becomes ``before``.
        steps: int, those of the plan, for a history without records; None: not known.
        board: list of the run's `TensorBoard`, if it has one, which is told the scores.
        about_data: dict of further metrics.
    """
    scores = readable_logs(trained.evaluate(evaluation, return_dict=True, verbose=0), trained)
    first, last = (history[0], history[-1]) if history else ({}, {})
    metrics = scores | about_data
    metrics |= {"steps": last.get("step", steps), "parameters": trained.count_params()}
    metrics |= {"tokens_per_second": last.get("tokens_per_second"), "minutes": training_minutes(history)}
    if first.get("step") == 0:
        metrics["before"] = {name.removeprefix("val_"): value for name, value in first.items() if name != "step"}
    for one in board:
        one.finish(scores | {"minutes": metrics["minutes"]}, metrics["steps"])
    return metrics
