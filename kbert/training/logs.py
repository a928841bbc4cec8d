"""The numbers of a run: what a compiled model says of itself, their names, and the file of the curves."""

import json
import logging
import math
import os
import pathlib

import keras

from kbert.files import atomic_file, explain_full_disk, parse_json
from kbert.keras_compat import base_optimizer, learning_rate_of, strategy_of
from kbert.optim.adamw import AdamW

_LOGGER = logging.getLogger("kbert")


def optimizer_logs(optimizer: keras.optimizers.Optimizer) -> dict[str, float]:
    """The learning rate of the last update, and its gradient norm if the optimizer keeps it."""
    optimizer = base_optimizer(optimizer)
    rate = learning_rate_of(optimizer)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        batches = updates_done(optimizer) * (optimizer.gradient_accumulation_steps or 1)  # which Keras counts here
        rate = rate(max(batches - 1, 0))
    logs = {"learning_rate": float(rate.numpy() if isinstance(rate, keras.Variable) else rate)}
    if isinstance(optimizer, AdamW):
        logs["gradient_norm"] = float(optimizer.gradient_norm.numpy())
    return logs


def updates_done(optimizer: keras.optimizers.Optimizer) -> int:
    """How often an optimizer has updated the weights."""
    return int(keras.ops.convert_to_numpy(optimizer.iterations))


def is_chief(model: keras.Model) -> bool:
    """Whether this process writes the shared files of a run; True for a single process."""
    strategy = strategy_of(model)
    return strategy is None or strategy.extended.should_checkpoint


def readable_logs(logs: dict, model: keras.Model) -> dict:
    """Keras' logs under kbert's names, which do not depend on how many outputs the model has.

    Keras prefixes a name with its output if there are several outputs, but not if there is one. Here "mlm_accuracy" has
    this name with and without the next-sentence head: it replaces "mlm_logits_accuracy", and the "accuracy" of a model
    whose only output is `mlm_logits`. "loss" is always the total loss; a single "logits" has no prefix.
    """
    outputs = list(model.output) if isinstance(model.output, dict) else []
    prefix = ""
    if len(outputs) == 1 and outputs[0].endswith("_logits"):
        prefix = outputs[0].removesuffix("logits")
    named = {}
    for name, value in logs.items():
        validation = "val_" * name.startswith("val_")
        name = name.removeprefix("val_")
        if name == "loss":
            named[validation + name] = value
        if name != "loss" or prefix:
            named[validation + prefix + name.replace("_logits_", "_")] = value
    return named


def complete_logs(logs: dict, model: keras.Model) -> dict:
    """Logs as `fit_steps` passes them to callbacks, with step and learning rate, also of a plain `model.fit`."""
    if "step" in logs:
        return logs
    model = getattr(model, "model", model)  # in `Pipeline.fit`
    return {"step": updates_done(model.optimizer)} | readable_logs(logs, model) | optimizer_logs(model.optimizer)


def best_step(records: list[dict]) -> int | None:
    """The step with the lowest held-out loss in the records of a history; None: none was measured."""
    losses = {record["step"]: record.get("val_loss") for record in records if record["step"]}
    losses = {step: loss for step, loss in losses.items() if loss is not None and math.isfinite(loss)}
    return min(losses, key=losses.get, default=None)


class History:
    """Records of a run in order, in memory and in a file: dicts with "step" and the logs of a window."""

    def __init__(self, path: str | os.PathLike | None, step: int = 0, writes: bool = True):
        self.path = None if path is None else pathlib.Path(path)
        self.writes = writes and path is not None
        self.records = [] if path is None else [record for record in read_history(path) if record["step"] <= step]
        if self.writes and self.path.exists():
            with atomic_file(self.path) as file:
                file.writelines(map(_line, self.records))

    def append(self, record: dict) -> None:
        """Adds the record of a window; numbers that are not finite, which JSON cannot hold, are written as null."""
        self.records.append(record)
        if not self.writes:
            return
        with explain_full_disk(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())


def training_minutes(records: list[dict]) -> float:
    """Minutes of the steps in a run's records, of all its processes; evaluations and starts are not counted."""
    return sum(record.get("seconds") or 0.0 for record in records) / 60


def _line(record: dict) -> str:
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
    return json.dumps(finite, allow_nan=False) + "\n"


def read_history(path: str | os.PathLike) -> list[dict]:
    """The records of such a file, none if there is no file; a damaged line is reported and dropped."""
    path = pathlib.Path(path)
    records = []
    lines = path.read_bytes().splitlines() if path.exists() else ()
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        try:
            record = parse_json(line, where, parse_constant=_refuse)
            if not isinstance(record, dict) or not isinstance(record.get("step"), int):
                raise ValueError(f'{where}: expected an object with a whole number "step". Received: {line[:80]!r}')
        except ValueError as error:
            _LOGGER.warning("%s This line is dropped.", error)
        else:
            records.append(record)
    return records


def _refuse(constant):
    raise ValueError(f"{constant} is not JSON")
