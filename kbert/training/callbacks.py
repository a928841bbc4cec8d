"""Progress of a run: lines on the console, scalars in TensorBoard.

Both use the logs that `fit_steps` completes (step, learning rate, speed), and also work with plain `model.fit`.
"""

import logging
import pathlib
import time

import keras

from kbert.files import explain_full_disk
from kbert.training.log_names import readable_logs
from kbert.training.progress import clock
from kbert.training.training_state import is_chief, optimizer_logs, updates_done

_LOGGER = logging.getLogger("kbert")
_NOT_ON_CONSOLE = ("step", "total_steps", "seconds", "steps_per_second", "gradient_norm", "time_share", "seconds_left")
_NOT_ON_CONSOLE += ("real_tokens_per_second",)
# The last is shown where the nominal speed is not known, as batches differ in length.


class ConsoleProgress(keras.callbacks.Callback):
    """Logs one line per window (an epoch of plain `model.fit`): step, losses, accuracies, rate, speed, time left; and
    one after the first step, which takes longest.

    Example::

        fit_steps(model, make_dataset, 1000, "runs/tiny", callbacks=[ConsoleProgress()])
    """

    def __init__(self):
        super().__init__()
        self._begun = False

    def on_train_begin(self, logs=None):
        self._start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        if not self._begun and is_chief(self.model):
            _LOGGER.info("first step done after %.1f s", time.perf_counter() - self._start)
        self._begun = True

    def on_epoch_end(self, epoch, logs=None):
        if not is_chief(self.model):
            return
        logs = _complete(logs, self.model)
        total = f"/{logs['total_steps']}" if "total_steps" in logs else ""
        parts = [f"step {logs['step']}{total}"]
        hidden = _NOT_ON_CONSOLE if "tokens_per_second" in logs else _NOT_ON_CONSOLE[:-1]
        for name, value in logs.items():
            if name not in hidden and not name.endswith(("cross_entropy", "perplexity")):
                parts.append(_show(name, value))
        if "seconds_left" in logs:
            parts.append(f"left {clock(max(0, logs['seconds_left']))}")
        elif total and logs.get("steps_per_second"):
            parts.append(f"left {clock((logs['total_steps'] - logs['step']) / logs['steps_per_second'])}")
        _LOGGER.info("%s", "  ".join(parts))


class TensorBoardScalars(keras.callbacks.Callback):
    """Writes the logs of each window as TensorBoard scalars against the run's step.

    Losses, accuracies, perplexity, learning rate, gradient norm and tokens/s go to the run `train`; scores on the
    validation data go to the run `validation` under the same names, so that TensorBoard draws them in one chart.

    Args:
        log_dir: path.

    Example::

        fit_steps(model, make_dataset, 1000, "runs/tiny", callbacks=[TensorBoardScalars("runs/tiny/logs")])
    """

    def __init__(self, log_dir):
        super().__init__()
        self.log_dir = pathlib.Path(log_dir)
        self._writers = {}

    def on_epoch_end(self, epoch, logs=None):
        if not is_chief(self.model):
            return
        import tensorflow as tf

        logs = _complete(logs, self.model)
        step = logs["step"]
        with explain_full_disk(self.log_dir):
            for name, value in logs.items():
                if name in ("step", "total_steps", "seconds", "seconds_left"):
                    continue
                run = "validation" if name.startswith("val_") else "train"
                with self._writer(run).as_default(step=step):
                    tf.summary.scalar(name.removeprefix("val_"), value)
            for writer in self._writers.values():
                writer.flush()

    def _writer(self, run):
        if run not in self._writers:
            import tensorflow as tf

            self._writers[run] = tf.summary.create_file_writer(str(self.log_dir / run))
        return self._writers[run]

    def on_train_end(self, logs=None):
        for writer in self._writers.values():
            writer.close()
        self._writers = {}


def _complete(logs, model):
    """The logs, with step and learning rate also where plain `model.fit` made them."""
    if "step" in logs:
        return logs
    step = updates_done(model.optimizer)
    return {"step": step} | readable_logs(logs, model) | optimizer_logs(model.optimizer)


def _show(name, value):
    if name == "tokens_per_second":
        return f"{value:,.0f} tokens/s"
    if name == "real_tokens_per_second":
        return f"{value:,.0f} real tokens/s"
    if name == "learning_rate":
        return f"lr {value:.3g}"
    return f"{name} {value:.4f}"
