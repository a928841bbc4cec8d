"""What `kbert.inspection.TensorBoard` costs a training."""

import pathlib
import statistics
import tempfile
import time

from benchmarks.batches import UNCOUNTED, batches
from kbert.inspection.board.tensor_board import TensorBoard
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW

_STEPS = 100  # of a call: recipes write curves every 100 steps or so


def board(settings):
    """Pre-training steps with and without TensorBoard, in turn: calls of `fit` of 103 steps each.

    An upper bound: the time of the calls without TensorBoard counts for the share of the time that samples may take.

    Returns:
        dict of milliseconds a step, medians of the calls without and with TensorBoard; `overhead`, by how much the
        total time with it is longer; `processor_overhead`, the same of processor time, which other programs disturb
        less; `once_seconds`, what the first call takes more than a later one: graphs and the first sample; and the
        settings.
    """
    config = settings.config()
    hardware = settings.hardware()
    model = BertPretrainer(config)
    model.compile(AdamW(1e-4), jit_compile=hardware.jit_compile)
    dataset = batches(settings, config, _STEPS)
    with tempfile.TemporaryDirectory() as directory:
        shown = next(iter(dataset.as_numpy_iterator()))
        callback = TensorBoard(pathlib.Path(directory) / "logs", batch=shown, wait_for_finish=True)

        def seconds(*callbacks):
            start, cpu = time.perf_counter(), time.process_time()
            model.fit(dataset, verbose=0, callbacks=list(callbacks))
            processor["with" if callbacks else "without"] += time.process_time() - cpu
            return time.perf_counter() - start

        processor = {"without": 0.0, "with": 0.0}
        seconds()  # traces the step
        once = seconds(callback) - seconds()
        calls = {"without": [], "with": []}
        processor |= {"without": 0.0, "with": 0.0}
        end = time.perf_counter() + settings.seconds * settings.rounds
        while time.perf_counter() < end or not calls["with"]:
            for name, callbacks in (("without", ()), ("with", (callback,))):
                calls[name].append(seconds(*callbacks))
    each = 1e3 / (_STEPS + UNCOUNTED)
    return {
        "ms_per_step": each * statistics.median(calls["without"]),
        "ms_per_step_with_tensorboard": each * statistics.median(calls["with"]),
        "overhead": sum(calls["with"]) / sum(calls["without"]) - 1,
        "processor_overhead": processor["with"] / processor["without"] - 1,
        "once_seconds": once,
        "calls": len(calls["with"]),
    } | settings.of_model()
