"""Does the input pipeline keep up: how fast are masked batches made, and what do they add to a training step?

    python recipes/benchmarks/input_speed.py records --size tiny --batch-size 16

Pre-training steps on one batch in memory and on batches from records or text take turns. Each call of `fit` starts the
pipeline anew, so it draws pools of pairs more often than a long run: an upper bound of its cost.
"""

import functools

import keras
import tensorflow as tf
from training_speed import STEPS, UNCOUNTED, timed_fit
from turns import arguments, report, take_turns, timed

from kbert.config import BertConfig, default_max_predictions, default_num_parts
from kbert.corpus.records import Records
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.pretraining.dataset import pretraining_dataset
from kbert.training.hardware import choose_hardware

BATCHES = 200  # of one unit of making batches


def main(records, size, batch_size, sequence_length, precision, packed, peers, rounds, seconds):
    data = functools.partial(batches, records, batch_size, sequence_length, packed)
    step = functools.partial(steps, data, size, sequence_length, precision, packed)
    systems = {"one batch": functools.partial(step, False), "input pipeline": functools.partial(step, True)}
    print("steps of training")
    report(take_turns(systems, rounds, seconds), batch_size * sequence_length)
    print("\nbatches alone, padding included")
    found = take_turns({"batches": functools.partial(make_batches, data)}, rounds, seconds)
    report(found, BATCHES * batch_size * sequence_length)


def batches(records, batch_size, sequence_length, packed):
    """The dataset of pre-training on records, and its tokenizer."""
    tokenizer = Records(records).tokenizer()
    predictions = default_max_predictions(sequence_length)
    sizes = {"batch_size": batch_size, "sequence_length": sequence_length, "max_predictions": predictions}
    return pretraining_dataset(records, tokenizer, packed=packed, **sizes), tokenizer


def steps(data, size, sequence_length, precision, packed, is_fed):
    keras.config.set_dtype_policy(precision)
    hardware = choose_hardware("one", precision=precision)
    dataset, tokenizer = data()
    if not is_fed:
        dataset = tf.data.Dataset.from_tensors(next(iter(dataset))).repeat()
    config = BertConfig.from_size(size, vocabulary_size=tokenizer.vocabulary_size)
    model = BertPretrainer(config, num_parts=default_num_parts(sequence_length) if packed else None)
    model.compile(AdamW(1e-4), jit_compile=hardware.jit_compile)
    return timed_fit(model, dataset.take(STEPS + UNCOUNTED))


def make_batches(data):
    made = iter(data()[0])

    def make():
        for _ in range(BATCHES):
            next(made)

    return timed(make)


if __name__ == "__main__":
    parser = arguments(__doc__, size="tiny", batch_size=32, sequence_length=128, precision="float32")
    parser.add_argument("records", help="directory of records")
    parser.add_argument("--packed", action="store_true", help="packed rows")
    main(**vars(parser.parse_args()))
