"""The optimizer of a pre-training, and its learning rate by steps or by the clock."""

import math

from kbert.optim.make_optimizer import make_optimizer
from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_stable_decay import WarmupStableDecay

_DECAY_SHARE = 0.2  # of a run with a stable rate: the end, in which it falls to 0


def make_schedule(settings):
    """The learning rate schedule of these settings: that of appendix A.2, or with a constant rate after the warm-up."""
    peak, warmup, steps = (settings[name] for name in ("learning_rate", "warmup_steps", "steps"))
    if settings["schedule"] == "linear":
        return WarmupLinearDecay(peak, warmup, steps)
    if settings["schedule"] == "constant":
        return WarmupStableDecay(peak, warmup)
    return WarmupStableDecay(peak, warmup, steps, min(math.ceil(_DECAY_SHARE * steps), steps - warmup))


def make_clock_rate(settings):
    """The same as a function of the share of a run's time: warm-up and decay are shares of it."""
    peak, warmup = settings["learning_rate"], settings["warmup_share"]
    decay = {"linear": 1.0, "constant": 0.0}.get(settings["schedule"], min(_DECAY_SHARE, 1.0 - warmup))

    def rate(share):
        if share < warmup:
            return peak * share / warmup
        return peak * min(1.0, (1.0 - share) / decay) if decay else peak

    return rate


def compile_models(trained, model, settings, hardware, steps_per_execution=None):
    """Appendix A.2: Adam with a linear warm-up and decay, weight decay 0.01, clipping at 1.0; or what was asked for.

    Args:
        trained: `kbert.BertPretrainer`, the model itself or a view of it for packed rows.
        model: `kbert.BertPretrainer`, for plain rows; it has the same optimizer: each continues where the other ends.
    """
    named = vars(settings)
    arguments = {
        "micro_batches": settings.accumulate,
        "jit_compile": hardware.jit_compile,
        "steps_per_execution": steps_per_execution or settings.steps_per_execution,
    }
    with hardware.scope():
        rate = make_schedule(named) if settings.hours is None else make_clock_rate(named)(0.0)
        trained.compile(make_optimizer(settings, rate), **arguments)
        if model is not trained:
            model.compile(trained.optimizer, **arguments)  # with its loss scale, if there is one
