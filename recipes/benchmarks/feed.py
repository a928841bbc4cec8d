"""Does the input pipeline keep up? Steps on one batch from memory, and steps that it feeds."""

import itertools
import statistics
import time

import keras
import tensorflow as tf

from benchmarks.text import real_batches
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.pretraining.packed_rows import default_num_parts

_SETTLING = 1.0  # seconds, in which the pipeline fills its buffers
_LEAST_STEPS = 3  # of settling and of measuring


class _Steps(keras.callbacks.Callback):
    """Ends a training some seconds after it has settled, and counts."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.ends, self.processor = seconds, [], []

    def on_train_begin(self, logs=None):
        self.begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        if not self.ends and (batch + 1 < _LEAST_STEPS or now < self.begin + _SETTLING):
            return
        self.ends.append(now)
        self.processor.append(time.process_time())
        if len(self.ends) > _LEAST_STEPS and now > self.ends[0] + self.seconds:
            self.model.stop_training = True

    def wall(self):
        return [after - before for before, after in itertools.pairwise(self.ends)]

    def processor_each(self):
        return (self.processor[-1] - self.processor[0]) / (len(self.processor) - 1)


def feed(settings):
    """Pre-training steps with one batch of the corpus again and again, and with the input pipeline, in turn.

    Each call of `fit` begins the pipeline anew, so that it draws pools of pairs more often than in a long run: an upper
    bound of its cost.

    Returns:
        dict of milliseconds a step, with the one batch and with the pipeline, medians of all steps; the same of
        processor time, medians of the rounds; `input_processor_share`, by how much more processor time a step takes
        with the pipeline; and the settings.
    """
    config = settings.config()
    hardware = settings.hardware()
    pipeline = real_batches(settings)
    one = tf.data.Dataset.from_tensors(next(iter(pipeline))).repeat()
    parts = default_num_parts(settings.sequence_length) if settings.packed else None
    model = BertPretrainer(config, num_parts=parts)
    model.compile(AdamW(1e-4), jit_compile=hardware.jit_compile)
    sources = {"one_batch": one, "pipeline": pipeline}
    wall, processor = {name: [] for name in sources}, {name: [] for name in sources}
    for number in range(settings.rounds + 1):
        for name, dataset in sources.items():
            steps = _Steps(settings.seconds if number else 0.0)
            model.fit(dataset, epochs=1, steps_per_epoch=10**9, verbose=0, callbacks=[steps])
            if number:  # the first round traces the step
                wall[name] += steps.wall()
                processor[name].append(steps.processor_each())
    result = {}
    for name in sources:
        result[f"{name}_ms_per_step"] = 1e3 * statistics.median(wall[name])
        result[f"{name}_processor_ms_per_step"] = 1e3 * statistics.median(processor[name])
    share = result["pipeline_processor_ms_per_step"] / result["one_batch_processor_ms_per_step"] - 1
    about = settings.of_model() | {"data": "real", "packed": settings.packed}
    return result | {"input_processor_share": share} | about
