"""The callback that shows a training in TensorBoard, where it writes, and profiles of a few steps."""

import importlib.util
import logging
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import keras

from kbert.aliases import PathLike
from kbert.checks import check_directory, check_option
from kbert.inspection.board.event_file import EventFile, event_files
from kbert.inspection.board.samples import AttentionEntropy, Sampler, layer_norms, weight_samples
from kbert.inspection.board.scalar_tags import DESCRIPTIONS, scalar_tag
from kbert.inspection.board.summaries import custom_scalars, histogram, scalar, session_end, session_start
from kbert.keras_compat import base_optimizer, strategy_scope
from kbert.models.bert_model import BertModel
from kbert.training.flops import device_peak, peak_bytes
from kbert.training.logs import complete_logs, is_chief, trained_model, updates_done

_LOGGER = logging.getLogger("kbert")
_NOT_SHOWN = ("step", "total_steps", "seconds", "flops_per_second")


class TensorBoard(keras.callbacks.Callback):
    """A callback that writes a training's curves and histograms for TensorBoard.

    `kbert.pretrain` and `kbert.finetune` have it by default. It also works with `train` and a plain `model.fit`, on
    TensorFlow and on JAX, with and without strategies (one process writes). The steps are the run's. There are:

    - *Time Series*: one chart for the runs `train`, `validation`, `baseline` and `final`. Every window (an epoch of
      plain `fit`) adds `accuracy/`, `loss/`, `optimizer/` (learning rate, gradient norm) and `speed/`. Sampled are
      `norms/` of gradients, weights and updates by layer, `self_attention/`, and histograms of `weights/`.
    - *Custom Scalars*: these curves, grouped by the question that they answer.
    - *HParams*, run `final`: all settings of the run, and its scores when it is done.
    - *Profile*, on request.

    Samples are taken at the end of a window, as often as possible while all of them together take less than
    `time_fraction` of the time. The first window always has one. A run that resumes continues its curves: TensorBoard
    drops what a killed process wrote after its last checkpoint. A directory is for a single run.

    Args:
        log_dir: the directory of the logs.
        settings: for HParams. None: the settings of the optimizer and the model's config.
        baseline: name as in the logs → value of a model that ignores all context. It is drawn as a line.
        batch: inputs, a batch with them as `fit` takes it, or a function that returns one. Its first rows show the
            entropy of attention. None: no entropy is shown.
        time_fraction: the fraction of the training time that samples may take.
        profile: steps to profile, as "20:25" or "20", or None.
        wait_for_finish: whether the run is over only when the caller calls `finish`, which has the final scores.

    Raises:
        TypeError: a `log_dir` that is no path.
        NotADirectoryError: it is a file, or below one.
        ValueError: a wrong `time_fraction`, `profile` or flag.
        WriteFault: as `kbert.files.explain_full_disk`.

    Example::

        model.fit(dataset, validation_data=dev, callbacks=[kbert.inspection.TensorBoard("runs/mine/logs")])
    """

    def __init__(
        self,
        log_dir: PathLike,
        *,
        settings: Mapping[str, Any] | None = None,
        baseline: Mapping[str, float] | None = None,
        batch: Any = None,
        time_fraction: float = 0.01,
        profile: str | None = None,
        wait_for_finish: bool = False,
    ) -> None:
        super().__init__()
        self.log_dir = check_directory(log_dir, "TensorBoard: `log_dir`")
        self.settings = settings
        self.baseline = baseline or {}
        self.batch = batch
        self.wait_for_finish = check_option("TensorBoard", "wait_for_finish", wait_for_finish, bool)
        self._sampler = Sampler(time_fraction)
        self._profiler = None if profile is None else Profiler(self.log_dir / "train", profile)
        # Off TensorFlow, Keras ends batches in other threads, and need not stop that for this callback.
        self.async_safe = profile is None
        self._files = {}
        self._start = None
        self._last = {}  # the logs of the last window
        self._entropy = None

    def set_model(self, model: keras.Model) -> None:
        super().set_model(trained_model(model))

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if not is_chief(self.model):
            return
        self._sampler.begin()
        step = updates_done(self.model.optimizer)
        if self._start is None or step < self._last.get("step", 0):  # a second run with the same callback
            self._close()
            self._begin(step)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._profiler is not None:
            self._epoch_start = updates_done(self.model.optimizer)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._profiler is not None and is_chief(self.model):
            self._profiler.before(self._epoch_start + batch + 1)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._profiler is not None and is_chief(self.model):
            self._profiler.after(self._epoch_start + batch + 1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not is_chief(self.model):
            return
        if self._start is None:  # called by hand, without `fit`
            self.on_train_begin()
        logs = complete_logs(logs, self.model)
        step = logs["step"]
        trained, held_out = _by_run(logs | self._speed(logs))
        self._write_scalars("train", step, trained)
        self._write_scalars("validation", step, held_out)
        self._write_scalars("baseline", step, self.baseline)
        if "loss" in logs and self._sampler.is_due():  # not of the scores before the first step
            with self._sampler.measure():
                self._file("train").write(step, list(self._samples(logs["learning_rate"])))
        self._flush()
        self._last = logs

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if not is_chief(self.model):
            return
        if self._profiler is not None:
            self._profiler.stop()
        last = self._last
        # A run in steps is several calls of `fit`, and this may be the end of any.
        is_over = last and last["step"] == last.get("total_steps", last["step"])
        if is_over and not self.wait_for_finish:
            trained, held_out = _by_run(last)
            self.finish({name: float(value) for name, value in (held_out or trained).items()}, last["step"])
        self._close()

    def finish(self, metrics: dict[str, Any], step: int) -> None:
        """Writes a run's final scores, which the HParams tab compares, and marks the run as done.

        Args:
            metrics: names as in the logs → floats; other values are skipped.
            step: that of the weights that were scored.
        """
        self._write_scalars("final", step, {name: value for name, value in metrics.items() if isinstance(value, float)})
        self._file("final").write(step, [session_end()])
        self._close()

    def _begin(self, step):
        self._start = step
        self._last = {}
        is_new = step == 0 or not event_files(self.log_dir / "train")
        for path in event_files(self.log_dir / "final"):
            path.unlink()  # the resumed run has not ended, and may have more steps now
        settings = _settings_of(self.model) if self.settings is None else self.settings
        self._file("final").write(0, [session_start(settings)])
        if is_new:
            self._file("train").write(0, [custom_scalars()])
            self._write_scalars("baseline", 0, self.baseline)
        if self._entropy is None and self.batch is not None and isinstance(self.model, BertModel):
            with strategy_scope(self.model):
                batch = self.batch() if callable(self.batch) else self.batch
                self._entropy = AttentionEntropy(self.model, batch[0] if isinstance(batch, tuple) else batch)
        self._flush()

    def _write_scalars(self, run, step, values):
        tags = {scalar_tag(name): float(value) for name, value in values.items() if name not in _NOT_SHOWN}
        if tags:
            self._file(run).write(step, [scalar(tag, value, DESCRIPTIONS.get(tag, "")) for tag, value in tags.items()])

    def _speed(self, logs):
        """Figures from the speed of a window, and memory."""
        numbers = {"peak_memory_gib": peak_bytes() / 2**30}
        if {"tokens_per_second", "real_tokens_per_second"} <= logs.keys():
            numbers["real_token_fraction"] = logs["real_tokens_per_second"] / logs["tokens_per_second"]
        if "flops_per_second" in logs and (peak := device_peak(self.model)):
            numbers["fraction_of_peak"] = logs["flops_per_second"] / peak
        return numbers

    def _samples(self, learning_rate):
        for kind, layers in layer_norms(self.model, learning_rate).items():
            for layer, norm in layers.items():
                yield scalar(f"norms/{kind}/{layer}", norm)
        for path, values in weight_samples(self.model).items():
            yield histogram(f"weights/{path}", values)
        if self._entropy is not None:
            for number, values in enumerate(self._entropy()):
                yield histogram(f"self_attention/entropy/encoder_block_{number}", values)
                yield scalar(f"self_attention/mean_entropy/encoder_block_{number}", float(values.mean()))

    def _file(self, run):
        if run not in self._files:
            step = max(self._start or 0, self._last.get("step", 0))  # the end of the last window
            self._files[run] = EventFile(self.log_dir / run, start=step + 1)
        return self._files[run]

    def _flush(self):
        for file in self._files.values():
            file.flush()

    def _close(self):
        files, self._files = self._files, {}
        for file in files.values():
            file.close()


def _by_run(logs):
    """The numbers of the training and, without their prefix, of the held-out data."""
    held_out = {name.removeprefix("val_"): value for name, value in logs.items() if name.startswith("val_")}
    return {name: value for name, value in logs.items() if not name.startswith("val_")}, held_out


def _settings_of(model):
    """What a plain `fit` trains with."""
    optimizer = base_optimizer(model.optimizer)
    config = model.config.to_dict() if isinstance(model, BertModel) else {}
    return {"optimizer": type(optimizer).__name__} | optimizer.get_config() | config


class Profiler:
    """Profiles some steps of a run for the Profile tab (package xprof): device, host and input pipeline."""

    def __init__(self, log_dir: PathLike, steps: str) -> None:
        self._log_dir = str(log_dir)
        self._first, self._last = profiled_steps(steps)
        self._is_running = False

    def before(self, step: int) -> None:
        if not self._is_running and self._first <= step <= self._last:
            self._is_running = True
            start, _ = _backend_profiler()
            start(self._log_dir)

    def after(self, step: int) -> None:
        if step >= self._last:
            self.stop()

    def stop(self) -> None:
        """Writes what was recorded, if anything is being recorded."""
        if self._is_running:
            self._is_running = False
            _, stop = _backend_profiler()
            stop()


def _backend_profiler() -> tuple[Callable, Callable]:
    """What starts and what stops it."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.profiler.start_trace, jax.profiler.stop_trace
    import tensorflow as tf

    return tf.profiler.experimental.start, tf.profiler.experimental.stop


def profiled_steps(steps: str) -> tuple[int, int]:
    """The (first, last) step to profile, from "20" or "20:25"."""
    match = re.fullmatch(r"(\d+)(?::(\d+))?", steps) if isinstance(steps, str) else None
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise ValueError(f'`profile` must be steps to profile, counted from 1, as "20:25". Received: {steps!r}')
    return first, last


def run_board(log_dir: PathLike | None, **options: Any) -> TensorBoard | None:
    """The callback for a run's logs; None without a directory for them, or where TensorBoard is not installed."""
    if log_dir is None:
        return None
    if importlib.util.find_spec("tensorboard") is None:  # TensorFlow brings it along
        _LOGGER.info("TensorBoard is not installed: there will be no logs for it.")
        return None
    return TensorBoard(log_dir, wait_for_finish=True, **options)


def log_directory(
    function: str, log_dir: PathLike | None, output: PathLike | None, profile: str | None = None
) -> pathlib.Path | None:
    """The directory of the logs of a run of `function`: `log_dir`, else ``logs`` in `output`, else None.

    Raises:
        ValueError: a wrong `profile`, or one without a directory.
    """
    if profile is not None:
        profiled_steps(profile)
    output = None if output is None else check_directory(output, f"{function}: `output`")
    if log_dir:
        return check_directory(log_dir, f"{function}: `log_dir`")
    if output is not None:
        return output / "logs"
    if profile is not None:
        raise ValueError(
            f"{function}: `profile` needs a directory for the logs, `log_dir` or `output`. "
            f"Received: profile={profile!r} and neither"
        )
    return None
