"""Settings of a pre-training that have a name: the paper's, and those for small budgets."""

from typing import Any

DEFAULTS: dict[str, Any] = {
    "batch_size": 32,
    "learning_rate": 1e-4,
    "schedule": "linear",
    "bias_correction": False,
}

NAMED_SETTINGS: dict[str, dict[str, Any]] = {
    # Devlin et al. 2018, section 3.1 and appendix A.2: 90 % of the steps with 128 tokens, 1 % of warm-up.
    "paper": {
        "batch_size": 256,
        "learning_rate": 1e-4,
        "phases": ((128, 0.9), (512, 0.1)),
        "warmup_share": 0.01,
        "dropout": 0.1,
        "bias_correction": False,
    },
    # Small models for hours on one machine: many small updates, new weights as wide as base's are at its width,
    # positions that tell distances from the start and a rate that stays at its peak end the plateau at token
    # frequencies sooner (docs/pretraining.md).
    "small-budget": {
        "batch_size": 16,
        "learning_rate": 1e-3,
        "schedule": "stable",
        "sequence_length": 128,
        "warmup_share": 0.05,
        "dropout": 0.0,
        "bias_correction": True,
        "initializer_stddev": "scaled",
        "position_initializer": "sinusoidal",
    },
}
_INSTEAD = {"phases": ("sequence_length",), "sequence_length": ("phases",), "warmup_share": ("warmup_steps",)}


def complete_settings(name, given: dict) -> dict:
    """Values for what is not given (None), of the settings of this name, else of the defaults.

    Args:
        name: a key of `NAMED_SETTINGS`, or None.
        given: name → value. A value also stands for those that it excludes: `phases` for `sequence_length`,
            `warmup_steps` for `warmup_share`.

    Example::

        complete_settings("small-budget", {"batch_size": 8, "learning_rate": None})["learning_rate"]  # 1e-3
    """
    if name is not None and name not in NAMED_SETTINGS:
        raise ValueError(f"pretrain: `settings` must be one of {tuple(NAMED_SETTINGS)}. Received: {name!r}")
    found = {}
    for field, value in (DEFAULTS | NAMED_SETTINGS.get(name, {})).items():
        if all(given.get(other) is None for other in (field, *_INSTEAD.get(field, ()))):
            found[field] = value
    return found
