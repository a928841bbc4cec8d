"""How a model is fine-tuned: the settings of the paper's appendix A.3, and those of the machine."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from kbert.checks import check_bool
from kbert.training.dev_evaluation import evaluation_steps

_FLAGS = ("bias_correction", "bilstm", "group_by_length", "random_weights")
_COUNTS = ("steps", "batch_size", "sequence_length", "logical_cpus", "patience", "checkpoint_every", "accumulate")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuningOptions:
    """How a model is fine-tuned; `kbert.finetune` explains the fields.

    Raises:
        ValueError: a value of the wrong kind, or out of range.
    """

    epochs: float = 3.0
    steps: int | None = None
    batch_size: int = 32
    learning_rate: float = 5e-5
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    sequence_length: int | None = None
    seed: int = 0
    dropout: float | None = None
    bias_correction: bool = False
    layer_decay: float | None = None
    bilstm: bool = False
    accumulate: int = 1
    group_by_length: bool = False
    random_weights: bool = False
    class_weight: Mapping | str | None = None
    strategy: str = "auto"
    logical_cpus: int | None = None
    precision: str = "auto"
    xla: str = "auto"
    evaluate_every: str | int | None = "epoch"
    keep: str = "best"
    patience: int | None = None
    checkpoint_every: int = 200

    def __post_init__(self):
        for name in _FLAGS:
            object.__setattr__(self, name, check_bool(getattr(self, name), f"finetune: `{name}`"))
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"finetune: `{name}` must be a whole number of at least 1. Received: {value!r}")
        if self.layer_decay is not None and not 0 < self.layer_decay <= 1:
            raise ValueError(f"finetune: `layer_decay` must be in (0, 1]. Received: {self.layer_decay!r}")
        for name in ("epochs", "learning_rate"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"finetune: `{name}` must be a number above 0. Received: {value!r}")
        for name in ("warmup_share", "weight_decay"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ValueError(f"finetune: `{name}` must be a number in [0, 1]. Received: {value!r}")
        if self.keep not in ("best", "last"):
            raise ValueError(f'finetune: `keep` must be "best" or "last". Received: {self.keep!r}')
        evaluation_steps(1, self.evaluate_every, 1)  # raises

    def to_dict(self) -> dict[str, Any]:
        """The options that determine the result: all but the interval of checkpoints."""
        fields = dataclasses.asdict(self)
        if isinstance(self.class_weight, Mapping):
            fields["class_weight"] = {str(key): float(factor) for key, factor in self.class_weight.items()}  # JSON
        del fields["checkpoint_every"]
        return fields
