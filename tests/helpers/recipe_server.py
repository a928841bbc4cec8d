"""A process that forks one for every recipe that it is asked to run, under a fault or not (see `RecipeProcesses`)."""

import ctypes
import importlib
import os
import resource
import runpy
import signal
import sys

from helpers.curves_alone import curves_alone
from helpers.fork_server import redirect, serve

MODULES = (
    "tensorflow_text tensorboard.compat.tensorflow_stub.io.gfile tensorboard.plugins.text.metadata kbert "
    "kbert.pretraining.dataset kbert.corpus.records kbert.pretraining.dataset_statistics "
    "kbert.pretraining.dataset_statistics kbert.inspection.examples.masked_examples kbert.models.classifier "
    "kbert.models.pretrainer kbert.optim.losses kbert.optim.metrics kbert.weights.build_pipeline "
    "kbert.tasks.scores kbert.tasks.training_data "
    "kbert.tasks.text_task kbert.finetuning.finetune kbert.pretraining.run.pretrain "
    "kbert.inspection.examples.dev_examples kbert.training.callbacks kbert.training.hardware kbert.training.loop "
    "kbert.training.run_directory kbert.weights.load kbert.weights.save"
).split()
ACTIONS = {None: 0, "kill": 1, "full": 2, "fail": 3, "signal": 4}  # as in file_faults.c


def prepare(request):
    """Makes the forked process that of a command: its output and arguments, and the fault it is to meet."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    redirect(log, log)
    sys.argv = [request["recipe"], *request["arguments"]]
    sys.path.insert(0, os.path.dirname(request["recipe"]))
    if request["quick"]:
        curves_alone()
        importlib.import_module("tensorflow").config.run_functions_eagerly(True)
        importlib.import_module("kbert.finetuning.predict_file")._SECONDS = 0.05  # parts, of a short run too
    if request.get("file_size"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_size"], resource.RLIM_INFINITY))
    if request.get("poison") is not None:
        poison(request["poison"])
    arm = ctypes.CDLL(None).faults_arm
    arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_char_p]
    arm(
        os.fsencode(request["within"]),
        ACTIONS[request.get("action")],
        request.get("moment", 0),
        request.get("number", 0),
        os.fsencode(request["report"]),
    )


def poison(step):
    """One number of the model is NaN from that step on."""
    import keras
    import numpy as np

    class Poison(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if int(self.model.optimizer.iterations.numpy()) == step:
                variable = self.model.trainable_variables[-1]
                value = variable.numpy()
                value.flat[0] = np.nan
                variable.assign(value)

    fit = keras.Model.fit

    def poisoned_fit(model, *arguments, callbacks=(), **options):
        return fit(model, *arguments, callbacks=[*callbacks, Poison()], **options)

    keras.Model.fit = poisoned_fit


if __name__ == "__main__" and (request := serve(MODULES)):
    prepare(request)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runpy.run_path(request["recipe"], run_name="__main__")
    finally:
        print(f"operations: {ctypes.CDLL(None).faults_count()}", flush=True)
