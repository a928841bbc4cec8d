"""Texts grouped by length get the answers of the padded batch; the longest of a batch is not paid for by all."""

import time

import numpy as np
import pytest
import tensorflow as tf
from helpers.slow_but import slow_but
from helpers.tiny_bert import PAIRS, TEXTS, randomise, tiny_config, tiny_tokenizer

import kbert
import kbert.pipelines.run_in_length_buckets as module
from kbert.pipelines.run_in_length_buckets import run_in_length_buckets
from kbert.preprocessing.preprocessor import TextPreprocessor

MODELS = {
    "classification": (kbert.BertClassifier, {"num_labels": 3}),
    "span": (kbert.BertSpanExtractor, {}),
    "tagging": (kbert.BertTagger, {"num_labels": 3}),
    "pretraining": (kbert.BertPretrainer, {}),
}
MANY = TEXTS + ["the film", "never " * 30, "", "good film of paris", "a", "very " * 12] * 3


@pytest.fixture(scope="module")
def encoder():
    return kbert.BertEncoder(tiny_config(num_layers=1))


def batch_of(texts):
    return TextPreprocessor(tiny_tokenizer(), sequence_length=17)(tf.constant(texts, tf.string))


@pytest.mark.parametrize("task", slow_but(("pretraining", "tagging"), MODELS))  # outputs by row, mask and token
def test_equals_the_padded_batch(task, monkeypatch):
    monkeypatch.setattr(module, "_EDGES", (4, 6, 12, 16))
    monkeypatch.setattr(module, "_TOKENS", 24)  # several groups of one edge
    make, arguments = MODELS[task]
    model = randomise(make(tiny_config(num_layers=1), **arguments), scale=0.3)
    batch = batch_of(MANY)
    if task == "pretraining":
        batch["mask_positions"] = tf.tile([[1, 0, 0]], [len(MANY), 1])
    expected, found = model({name: batch[name] for name in model.input}), run_in_length_buckets(model, batch)
    assert expected.keys() == found.keys()
    is_token = batch["padding_mask"].numpy()
    for name, value in expected.items():
        value, received = value.numpy(), found[name].numpy()
        assert value.shape == received.shape
        if name in model.token_outputs:  # garbage at padding
            value, received = value[is_token], received[is_token]
        np.testing.assert_allclose(received, value, atol=1e-5, err_msg=name)


def test_choices_share_a_row():
    model = randomise(kbert.BertMultipleChoice(tiny_config(num_layers=1)), scale=0.3)
    rows = batch_of(MANY[:22])
    batch = {name: tf.reshape(value, (11, 2, 17)) for name, value in rows.items()}
    np.testing.assert_allclose(run_in_length_buckets(model, batch)["logits"], model(batch)["logits"], atol=1e-5)


class Spy:
    """A model in whose place it notes the shapes of the batches it is run on, and gives no outputs."""

    def __init__(self, model):
        self.token_outputs, self.input, self.output, self.shapes = (), model.input, {}, []

    def __call__(self, batch, training):
        self.shapes.append(tuple(batch["token_ids"].shape))
        return {}


@pytest.mark.parametrize(
    "length, rows", [(17, 300), (40, 700), (130, 300), (600, 40), (1100, 30), (3000, 9), (9000, 3)]
)
def test_no_run_holds_more_tokens_than_is_said(length, rows, encoder):
    """Whatever the lengths: rows times the longest of them; a single row may be longer than the bound."""
    spy = Spy(encoder)
    lengths = np.random.default_rng(length).integers(1, length + 1, rows)
    lengths[0] = length
    mask = tf.sequence_mask(lengths, length)
    run_in_length_buckets(
        spy, dict.fromkeys(("token_ids", "segment_ids"), tf.zeros((rows, length), tf.int32)) | {"padding_mask": mask}
    )
    assert sum(rows for rows, _ in spy.shapes) == rows and max(longest for _, longest in spy.shapes) == length
    assert all(rows * longest <= 8192 or rows == 1 for rows, longest in spy.shapes)
    largest = max(rows * longest for rows, longest in spy.shapes)
    assert largest == length if length > 8192 else largest > 8192 / 4


def test_choices_are_rows_of_their_own(monkeypatch):
    """A thousand choices of one question hold no more memory than a thousand texts."""
    monkeypatch.setattr(module, "_EDGES", (16,))
    monkeypatch.setattr(module, "_TOKENS", 64)
    rows = batch_of(MANY[:22])
    spy = Spy(kbert.BertMultipleChoice(tiny_config(num_layers=1)))
    run_in_length_buckets(spy, {name: tf.reshape(value, (1, 22, 17)) for name, value in rows.items()})
    assert sum(shape[0] for shape in spy.shapes) == 22
    assert all(shape[1] == 1 and shape[0] * shape[2] <= 64 for shape in spy.shapes)


@pytest.mark.parametrize("shape", [(0, 2), (3, 0), (0, 0)])
def test_no_choices(shape):
    model = kbert.BertMultipleChoice(tiny_config(num_layers=1))
    batch = {name: tf.zeros((*shape, 17), value.dtype) for name, value in batch_of(["a"]).items()}
    assert run_in_length_buckets(model, batch)["logits"].shape == shape


def test_one_run_at_a_time(monkeypatch, encoder):
    """In a graph, whose loops run ten iterations at once unless told otherwise."""
    monkeypatch.setattr(module, "_TOKENS", 8)
    running, most = 0, 0

    def note(tokens):
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.02)
        running -= 1
        return np.float32(tokens.sum())

    class Slow(Spy):
        def __call__(self, batch, training):
            total = tf.numpy_function(note, [batch["token_ids"]], tf.float32, stateful=False)
            return {"pooled_output": tf.fill((tf.shape(batch["token_ids"])[0], 1), total)}

    model = Slow(encoder)
    model.output = {"pooled_output": tf.zeros((1, 1))}
    batch = batch_of(["a film is good"] * 12)
    tf.function(lambda: run_in_length_buckets(model, batch))()
    assert most == 1


def test_groups_are_cut_to_their_own_longest_row(encoder):
    spy = Spy(encoder)
    run_in_length_buckets(spy, batch_of(["a", "a film", "a film is good .", "never " * 30, ""]))
    assert spy.shapes == [(4, 7), (1, 17)]  # 2, 3, 4 and 7 tokens run together, 17 alone


def test_a_pipeline_answers_alike_called_predicting_and_symbolically():
    import keras

    pipeline = kbert.build_pipeline(
        randomise(kbert.BertClassifier(tiny_config(num_layers=1))), tiny_tokenizer(), pair=True
    )
    columns = {"text": TEXTS, "text_pair": PAIRS}
    inputs = {name: keras.Input((), dtype="string", name=name) for name in columns}
    padded = keras.Model(inputs, pipeline(inputs))({name: tf.constant(value) for name, value in columns.items()})
    for answers in (pipeline(columns), pipeline.predict(columns, verbose=0)):
        np.testing.assert_allclose(answers["probabilities"], padded["probabilities"], atol=1e-5)
    assert pipeline({name: [] for name in columns})["probabilities"].shape == (0, 2)
