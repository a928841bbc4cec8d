"""The optimizer of a pre-training and its schedule."""

from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_constant import WarmupConstant


def make_schedule(settings):
    """The learning rate schedule of these settings: that of appendix A.2, or the same without decay."""
    if settings["schedule"] == "constant":
        return WarmupConstant(settings["learning_rate"], settings["warmup_steps"])
    return WarmupLinearDecay(settings["learning_rate"], settings["warmup_steps"], settings["steps"])


def compile_model(model, settings, hardware):
    """Appendix A.2: Adam with a linear warm-up and decay, weight decay 0.01, clipping at 1.0."""
    with hardware.scope():
        model.compile(AdamW(make_schedule(settings.to_dict())), jit_compile=hardware.jit_compile)
