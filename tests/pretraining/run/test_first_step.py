"""How long a pre-training takes until its first step is done."""

import pytest
from helpers.pretraining_fixtures import corpus, records, tokenizer  # noqa: F401 - fixtures
from helpers.run_python import run_python

TRAIN = """
import json, sys, time
import keras
import kbert

class FirstStep(keras.callbacks.Callback):
    seconds = None

    def on_train_batch_end(self, batch, logs=None):
        FirstStep.seconds = FirstStep.seconds or time.process_time()

settings = {"size": "mini", "steps": 2, "batch_size": 8, "sequence_length": 64, "evaluation_batches": 2}
kbert.pretrain(sys.argv[1], callbacks=[FirstStep()], checkpoint_every=2, log_every=2, **settings)
print(json.dumps(FirstStep.seconds))
"""


@pytest.mark.slow
def test_the_first_step_is_done_after_few_seconds_of_work(records):  # noqa: F811
    """Of the processor, not of a clock, which other programs make faster or slower; with two cores less time passes."""
    assert run_python(TRAIN, records) < 30  # of two cores in 15 seconds
