"""Table 5's BiLSTM between encoder and head: what heads read went through it, and it learns."""

import keras
import numpy as np
import pytest
from experiments.bilstm_encoder import BilstmEncoder, bilstm_encoder
from helpers.batches import BATCH, LENGTH, SIZES, config, labels_of, plain_batch
from helpers.slow_but import slow_but

import kbert

HEADS = {
    "classification": kbert.BertClassifier,
    "regression": kbert.BertRegressor,
    "span": kbert.BertSpanExtractor,
    "tagging": lambda encoder: kbert.BertTagger(encoder, 5, dropout=0.0),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A left-to-right encoder on disk."""
    words = [f"w{number}" for number in range(SIZES["vocabulary_size"] - 5)]
    tokenizer = kbert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    encoder = kbert.BertEncoder(config(num_layers=1, causal=True, pooled_token="last"))
    path = tmp_path_factory.mktemp("source") / "left-to-right"
    kbert.save_pretrained(encoder, path, tokenizer=tokenizer)
    return path


@pytest.mark.parametrize("task", slow_but(("classification", "tagging"), HEADS))
def test_a_head_reads_the_new_layer(source, task):
    encoder = bilstm_encoder(source, task, seed=3, dropout=0.0)
    model = HEADS[task](encoder)
    batch = plain_batch()
    before = {name: np.array(values) for name, values in model(batch).items()}
    mask = batch["padding_mask"]
    padded_otherwise = batch | {"token_ids": np.where(mask, batch["token_ids"], 7)}
    real = np.array(mask) if task in ("tagging", "span") else slice(None)
    for name, values in model(padded_otherwise).items():
        np.testing.assert_array_equal(np.array(values)[real], before[name][real])
    lstm = encoder.get_layer("bilstm")
    lstm.set_weights([0.0 * values for values in lstm.get_weights()])
    for name, values in model(batch).items():
        assert np.ptp(np.array(values), axis=(0, 1) if task == "tagging" else 0).max() == 0 and np.ptp(before[name]) > 0
    again = bilstm_encoder(source, task, seed=3).get_layer("bilstm").get_weights()
    other = bilstm_encoder(source, task, seed=4).get_layer("bilstm").get_weights()
    assert not np.array_equal(again[0], other[0]) and encoder.config.hidden_dropout == 0.0


@pytest.mark.slow
def test_it_learns_under_xla_as_without():
    small = config(num_layers=1, causal=True)
    plain, compiled = (
        HEADS["tagging"](BilstmEncoder(kbert.BertEncoder(small, "sequence_output", pooler=False), False))
        for _ in range(2)
    )
    compiled.set_weights(plain.get_weights())
    labels = {"logits": labels_of((BATCH, LENGTH), 5)}
    losses = {}
    for model in (plain, compiled):
        how = {"jit_compile": True} if model is compiled else {"run_eagerly": True}
        model.compile(keras.optimizers.SGD(0.1), **how)
        losses[model] = model.train_on_batch(plain_batch(), labels)
    np.testing.assert_allclose(losses[compiled], losses[plain], rtol=1e-5)
    for values, expected in zip(compiled.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(values, expected, atol=1e-5)
