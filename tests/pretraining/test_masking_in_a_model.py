"""Masking as a layer of a `keras.Model`: in training only, from Keras variables too, and from a string to the loss."""

import contextlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.reference_masking import CLS, MASK, SEP, VOCABULARY, WORD, make_batch
from helpers.tiny_corpus import LETTERS, make_pretrainer, make_tokenizer

from kbert import AdamW, BertTokenizer
from kbert.keras_compat import CompatibleModel
from kbert.optim import MaskedLanguageModelLoss
from kbert.preprocessing import TextPreprocessor
from kbert.pretraining.masking import TokenMasking
from kbert.stateless_random import fold_in, permutation, uniform

TEXTS = [" ".join(LETTERS[n % 5 : n % 5 + 9]) for n in range(24)]


@pytest.fixture(scope="module")
def batch():
    return make_batch([[CLS, *range(WORD, WORD + 25), SEP], [CLS, WORD, MASK, WORD, MASK, SEP]], 30)


def graph_of(batch, masking):
    inputs = {name: keras.Input(x.shape[1:], dtype=x.dtype.name, name=name) for name, x in batch.items()}
    masked, mask_ids, mask_weights = masking(inputs)
    return keras.Model(inputs, {**masked, "mask_ids": mask_ids, "mask_weights": mask_weights})


def test_a_graph_masks_in_training_only(batch):
    model = graph_of(batch, TokenMasking(BertTokenizer(VOCABULARY), max_predictions=4, seed=1))
    for outputs in (model(batch, training=False), model.predict(batch, verbose=0)):
        np.testing.assert_array_equal(outputs["token_ids"], batch["token_ids"])
        np.testing.assert_array_equal(outputs["mask_positions"], [[0, 0, 0, 0], [2, 4, 0, 0]])
        assert not np.any(outputs["mask_weights"]) and not np.any(outputs["mask_ids"])
    one, other = model(batch, training=True), model(batch, training=True)
    assert np.any(one["mask_positions"] != other["mask_positions"])
    assert np.any(one["token_ids"] != batch["token_ids"]) and np.sum(one["mask_weights"]) == 5


def test_keys_decide_alone_whatever_training_is(batch):
    masking = TokenMasking(BertTokenizer(VOCABULARY), max_predictions=4)
    keys = keras.Variable([3, 9], dtype="int32", trainable=False)
    results = [masking(batch, keys=keys, training=training) for training in (None, True, False)]
    results.append(masking(batch, keys=tf.constant([3, 9], tf.int64)))
    for result in results[1:]:
        tf.nest.map_structure(np.testing.assert_array_equal, result, results[0])


@pytest.mark.parametrize("in_graph", [False, True])
def test_keras_variables_are_keys_and_seeds(batch, in_graph):
    number = keras.Variable(7, dtype="int32", trainable=False)
    state = keras.random.SeedGenerator(3).state  # uint32 [2]

    def draws():
        keys = (fold_in(0, [number]), fold_in(number, number), fold_in(0, state))
        return *keys, uniform(number, 3), permutation(number, 5)

    values = tf.function(draws)() if in_graph else draws()
    expected = fold_in(0, [7]), fold_in(7, 7), fold_in(0, [3, 0]), uniform(7, 3), permutation(7, 5)
    for value, other in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, other)
    masking = TokenMasking(BertTokenizer(VOCABULARY), max_predictions=4, seed=number)
    call = tf.function(masking) if in_graph else masking
    first, again = call(batch), call(batch)
    tf.nest.map_structure(np.testing.assert_array_equal, first, again)
    number.assign(8)
    assert np.any(call(batch)[0]["mask_positions"] != first[0]["mask_positions"])
    assert masking.weights == [] and isinstance(masking.get_config()["seed"], int)


@keras.saving.register_keras_serializable("test")
class MaskedLMLoss(keras.layers.Layer):
    """The loss as a layer, as docs/fill-mask.md shows it."""

    def call(self, mask_ids, logits, mask_weights):
        self.add_loss(MaskedLanguageModelLoss()(mask_ids, logits, mask_weights))
        return logits


def string_to_loss(seed=1, batch_size=None):
    tokenizer, pretrainer = make_tokenizer(), make_pretrainer(32, hidden_dropout=0.0, attention_dropout=0.0)
    text = keras.Input((), batch_size=batch_size, dtype="string", name="text")
    rows = TextPreprocessor(tokenizer, sequence_length=24)(text)
    inputs, mask_ids, mask_weights = TokenMasking(tokenizer, max_predictions=5, seed=seed)(rows)
    logits = pretrainer(inputs)["mlm_logits"]
    model = CompatibleModel(text, MaskedLMLoss()(mask_ids, logits, mask_weights))
    model.compile(AdamW(0.02))
    return model


@pytest.mark.usefixtures("eagerly")
def test_one_model_from_string_to_loss_is_saved_loaded_and_continued(tmp_path):
    texts, options = tf.constant(TEXTS), {"batch_size": 24, "verbose": 0, "shuffle": False}
    model = string_to_loss()
    losses = model.fit(texts, epochs=2, **options).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(texts, verbose=0), model.predict(texts, verbose=0))
    assert again.fit(texts, epochs=1, **options).history == model.fit(texts, epochs=1, **options).history
    np.testing.assert_array_equal(again.predict(texts, verbose=0), model.predict(texts, verbose=0))
    whole = string_to_loss()
    assert whole.fit(texts, epochs=3, **options).history["loss"][:2] == losses
    np.testing.assert_array_equal(whole.predict(texts, verbose=0), model.predict(texts, verbose=0))


def test_shapes_are_static():
    model = string_to_loss(batch_size=8)
    assert model.output.shape[:2] == (8, 5)
    own_layers = [layer for layer in model.layers if not isinstance(layer, keras.Model)]
    assert all(None not in tensor.shape for layer in own_layers for tensor in tf.nest.flatten(layer.output))


@pytest.mark.slow  # XLA compiles masking: test_masking.py, test_in_tf_data_and_under_xla
def test_keras_compiles_no_model_with_a_tokenizer_and_says_so():
    """A `TokenMasking` has one, even where the inputs are tokens: such a model trains the same without XLA."""
    pretrainer, losses = make_pretrainer(32, hidden_dropout=0.0, attention_dropout=0.0), []
    rows = TextPreprocessor(make_tokenizer(), sequence_length=24)(TEXTS)
    for compiled in (True, False):
        inputs = {name: keras.Input(x.shape[1:], batch_size=8, dtype=x.dtype.name) for name, x in rows.items()}
        masking = TokenMasking(make_tokenizer(), max_predictions=5, seed=1, whole_word=True)
        masked, mask_ids, mask_weights = masking(inputs)
        logits = pretrainer(masked)["mlm_logits"]
        outputs = MaskedLMLoss()(mask_ids, logits, mask_weights)
        from_ids = keras.Model(inputs, outputs)
        with pytest.warns(UserWarning, match="jit_compile=False") if compiled else contextlib.nullcontext():
            from_ids.compile(keras.optimizers.SGD(0.0), jit_compile=compiled)
            losses.append(from_ids.fit(rows, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_each_replica_masks_its_rows_of_the_batch(batch, monkeypatch):
    def masks(rows, replica=None):
        masking = TokenMasking(BertTokenizer(VOCABULARY), max_predictions=4, seed=1)
        if replica is not None:
            context = types.SimpleNamespace(num_replicas_in_sync=2, replica_id_in_sync_group=replica)
            monkeypatch.setattr(tf.distribute, "get_replica_context", lambda: context)
        results = [masking.call({name: column[rows] for name, column in batch.items()}) for _ in range(2)]
        monkeypatch.undo()
        return results

    whole = masks(slice(None))
    for replica in range(2):
        for result, expected in zip(masks(slice(replica, replica + 1), replica), whole, strict=True):
            tf.nest.map_structure(
                lambda one, other, n=replica: np.testing.assert_array_equal(one, other[n : n + 1]), result, expected
            )
