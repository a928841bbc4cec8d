"""Named options of a pre-training: files as ``--config`` takes them."""

from typing import Any

from kbert.options import grouped, read_config
from kbert.pretraining.run.options import PRESETS
from kbert.pretraining.run.pretrain import pretrain


def preset(name: str) -> dict[str, Any]:
    """Options of `kbert.pretrain` that go together, as ``kbert pretrain --config NAME`` takes them.

    Args:
        name: "paper" (Devlin et al. 2018, section 3.1 and appendix A.2) or "small-budget", for small models and hours
            on one machine.

    Returns:
        dict of keyword arguments.

    Raises:
        ValueError: an unknown name.

    Example::

        options = kbert.pretraining.preset("small-budget") | {"learning_rate": 2e-4}
        kbert.pretrain("records", steps=5000, **options)
    """
    names = sorted(path.stem for path in PRESETS.glob("*.yaml"))
    if name not in names:
        raise ValueError(f"preset: `name` must be one of {names}. Received: {name!r}")
    return grouped(pretrain, read_config(PRESETS / f"{name}.yaml"))
