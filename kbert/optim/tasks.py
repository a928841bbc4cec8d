"""The losses and metrics of every task, by output."""

from kbert.optim.losses import ClassificationLoss, RegressionLoss, SpanLoss
from kbert.optim.metrics import Accuracy, SpanAccuracy, SquaredError
from kbert.optim.pretraining import pretraining_losses, pretraining_metrics


def task_losses(task):
    """The losses of a model by its `.task`, for `model.compile(loss=...)`.

    Example::

        model.compile(AdamW(2e-5), loss=task_losses(model.task), weighted_metrics=task_metrics(model.task))
    """
    losses = {
        "pretraining": pretraining_losses,
        "masked_lm": lambda: pretraining_losses(next_sentence=False),
        "next_sentence": lambda: pretraining_losses(masked_lm=False),
        "classification": lambda: {"logits": ClassificationLoss()},
        "tagging": lambda: {"logits": ClassificationLoss()},
        "multiple_choice": lambda: {"logits": ClassificationLoss()},
        "regression": lambda: {"score": RegressionLoss()},
        "span": lambda: {"start_logits": SpanLoss(), "end_logits": SpanLoss()},
    }
    return _of_task(losses, task, "task_losses")


def task_metrics(task):
    """The metrics of a model by its `.task`, for `model.compile(weighted_metrics=...)`."""
    metrics = {
        "pretraining": pretraining_metrics,
        "masked_lm": lambda: pretraining_metrics(next_sentence=False),
        "next_sentence": lambda: pretraining_metrics(masked_lm=False),
        "classification": lambda: {"logits": [Accuracy()]},
        "tagging": lambda: {"logits": [Accuracy()]},
        "multiple_choice": lambda: {"logits": [Accuracy()]},
        "regression": lambda: {"score": [SquaredError()]},
        "span": lambda: {"start_logits": [SpanAccuracy()], "end_logits": [SpanAccuracy()]},
    }
    return _of_task(metrics, task, "task_metrics")


def _of_task(makers, task, caller):
    if task not in makers:
        raise ValueError(f"{caller}: `task` must be one of {sorted(makers)}. Received: {task!r}")
    return makers[task]()
