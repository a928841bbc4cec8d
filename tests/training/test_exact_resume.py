"""A plain `fit` with `ExactResume`: killed and started again it ends with the same weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import randomise, tiny_config

import kbert
from kbert.training import ExactResume

STEPS = 3


def make_dataset(start_step):
    """Batch n is a function of n."""

    def batch(step):
        ids = tf.random.stateless_uniform([4, 6], [7, tf.cast(step, tf.int32)], 5, 20, tf.int32)
        inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
        return inputs, {"logits": ids[:, 0] % 2}

    return tf.data.Dataset.range(start_step, 1000).map(batch)


def make_model():
    keras.utils.set_random_seed(3)
    model = randomise(kbert.BertClassifier(tiny_config(hidden_dropout=0.1), num_labels=2))
    model.compile(kbert.AdamW(1e-3))
    return model


class KilledAt(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch:
            raise InterruptedError


def train(directory, *callbacks):
    model = make_model()
    resume = ExactResume(directory, model, STEPS)
    dataset = make_dataset(resume.step)
    model.fit(
        dataset,
        steps_per_epoch=STEPS,
        epochs=4,
        initial_epoch=resume.epoch,
        callbacks=[resume, *callbacks],
        verbose=0,
    )
    return model, resume


def test_a_killed_fit_goes_on_to_the_same_weights(tmp_path):
    whole, resume = train(tmp_path / "whole")
    assert (resume.step, int(whole.optimizer.iterations.numpy())) == (12, 12)
    with pytest.raises(InterruptedError):
        train(tmp_path / "killed", KilledAt(2))
    again, resume = train(tmp_path / "killed")
    assert resume.step == 12
    for one, other in zip(whole.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    done = ExactResume(tmp_path / "killed", make_model(), STEPS)
    assert (done.step, done.epoch) == (12, 4)
    assert len(list((tmp_path / "killed/checkpoints").iterdir())) == 2


def test_other_steps_or_another_place_are_an_error(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(ValueError, match="checkpoint of step 12 .* not at the end of an epoch.* Received: 5"):
        ExactResume(tmp_path / "run", make_model(), 5)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="ExactResume: `directory`"):
        ExactResume(tmp_path / "file", make_model(), STEPS)
