"""A pre-training small enough for tests: model, batches as a function of their number, and a run that can be killed.

As a script: ``python tiny_pretraining.py OUTPUT [STEP]`` trains for `STEPS` in windows of `WINDOW`; given STEP the
process kills itself, as the kernel would, at that step.
"""

import functools
import logging
import os
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from helpers.at_step import AtStep
from helpers.reused import reused
from kbert.config import BertConfig
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training import loop
from kbert.training.dev_scoring import DevScoring
from kbert.training.exact_resume import ExactResume
from kbert.training.logs import readable_logs
from kbert.training.run_log import RunLog

B, S, P, V = 6, 9, 2, 37
STEPS, WINDOW = 11, 4


def config(**changes):
    fields = {
        "vocabulary_size": V,
        "num_layers": 1,
        "hidden_dim": 12,
        "num_heads": 3,
        "intermediate_dim": 20,
        "max_sequence_length": S,
    }
    return BertConfig(**(fields | changes))


def compiled_model(optimizer=None, jit_compile=False, **changes):
    keras.utils.set_random_seed(7)
    model = BertPretrainer(config(**changes))
    model.compile(optimizer or AdamW(WarmupLinearDecay(0.01, 3, 30)), jit_compile=jit_compile)
    return model


def model():
    """What `compiled_model()` gives, `reused`."""
    return reused(compiled_model)


@functools.cache
def make_dataset(start_step=0, batch_size=B):
    """Batch n is a function of n; unequal numbers of predictions and of padding in its rows."""

    def batch(n):
        def integers(low, high, shape, salt):
            return tf.random.stateless_uniform(shape, [tf.cast(n, tf.int32), salt], low, high, tf.int32)

        lengths = integers(4, S + 1, (batch_size, 1), 1)
        inputs = {
            "token_ids": integers(5, V, (batch_size, S), 2),
            "segment_ids": tf.cast(tf.range(S)[None] > lengths // 2, tf.int32),
            "padding_mask": tf.range(S)[None] < lengths,
            "mask_positions": integers(0, 4, (batch_size, P), 3),
        }
        labels = {
            "mlm_logits": tf.gather(inputs["token_ids"], inputs["mask_positions"], batch_dims=1),
            "nsp_logits": inputs["token_ids"][:, 1] % 2,
        }
        used = tf.cast(tf.range(P)[None] < integers(1, P + 1, (batch_size, 1), 4), tf.float32)
        return inputs, labels, {"mlm_logits": used, "nsp_logits": tf.ones((batch_size,))}

    return tf.data.Dataset.range(start_step, 10**6).map(batch)


def dies_at(step):
    """A callback that ends the process after a step."""
    return AtStep(step, lambda model: os.kill(os.getpid(), signal.SIGKILL))


def held_out(model, data, steps=None, due=None, **options):
    """A `DevScoring` on batches, by their loss; after the steps that are `due`, or each window."""
    evaluate = lambda: readable_logs(model.evaluate(data, steps=steps, return_dict=True, verbose=0), model)  # noqa: E731
    return DevScoring(evaluate, "loss", due, lower_is_better=True, **options)


def train(
    model,
    make_dataset,
    steps,
    output=None,
    window=WINDOW,
    callbacks=(),
    scoring=(),
    every=None,
    real_tokens=None,
    **stored,
):
    """`kbert.training.train` with a log and, in a directory, checkpoints; returns the records of the windows."""
    log, resume = RunLog(output, real_tokens), []
    if output is not None:
        resume = [ExactResume(output, model, every=every or window, callbacks=scoring, **stored)]
    start = resume[0].step if resume else 0
    loop.train(
        model, make_dataset, steps, start=start, log_every=window, callbacks=[*scoring, log, *callbacks, *resume]
    )
    return log.records


def run(output, kill_at=None, **arguments):
    """Trains with dropout 0.1; returns the history, and all weights and states of random generators."""
    trained = model()
    callbacks = [dies_at(kill_at)] if kill_at else []
    history = train(trained, make_dataset, STEPS, output, callbacks=callbacks, **arguments)
    return history, [v.numpy() for v in trained.variables]


if __name__ == "__main__":
    logging.basicConfig(level="INFO", stream=sys.stdout)
    output = sys.argv[1]
    weights = run(output, int(sys.argv[2]) if len(sys.argv) > 2 else None)[1]
    np.savez(os.path.join(output, "weights.npz"), *weights)
