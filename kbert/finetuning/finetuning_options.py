"""How a model is fine-tuned: the settings of the paper's appendix A.3, and those of the machine."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from kbert.checks import check_bool, check_integers, check_numbers, check_peak, check_positive
from kbert.training.dev_evaluation import evaluation_steps

_FLAGS = ("bias_correction", "bilstm", "group_by_length", "random_weights")
_COUNTS = ("steps", "batch_size", "sequence_length", "logical_cpus", "patience", "checkpoint_every", "accumulate")
_COUNTS += ("lora_rank",)
_INTERVALS = {
    "(0, inf)": ("epochs",),
    "(0, 1]": ("layer_decay",),
    "[0, 1]": ("warmup_share", "weight_decay"),
    "[0, 1)": ("dropout",),
}


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
    lora_rank: int | None = None
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
        fields = {field.name: (getattr(self, field.name), field.default) for field in dataclasses.fields(self)}
        given = {name: value for name, (value, default) in fields.items() if value is not None or default is not None}
        checked = check_positive("finetune", **{name: given[name] for name in _COUNTS if name in given})
        checked |= check_integers("finetune", 0, seed=self.seed)
        for interval, names in _INTERVALS.items():
            checked |= check_numbers("finetune", interval, **{name: given[name] for name in names if name in given})
        checked["learning_rate"] = check_peak("finetune", self.learning_rate)
        evaluation_steps(1, self.evaluate_every, 1)  # raises
        if self.evaluate_every not in (None, "epoch"):
            checked["evaluate_every"] = int(self.evaluate_every)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.keep not in ("best", "last"):
            raise ValueError(f'finetune: `keep` must be "best" or "last". Received: {self.keep!r}')

    def to_dict(self) -> dict[str, Any]:
        """The options that determine the result: all but the interval of checkpoints."""
        fields = dataclasses.asdict(self)
        if isinstance(self.class_weight, Mapping):
            fields["class_weight"] = {str(key): float(factor) for key, factor in self.class_weight.items()}  # JSON
        del fields["checkpoint_every"]
        return fields
