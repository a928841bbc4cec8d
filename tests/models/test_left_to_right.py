"""Left-to-right models and other positions: no token sees a later one, on every path, and what they are stored in."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.batches import BATCH, LABELS, LENGTH, PARTS, SIZES, config, packed_batch, plain_batch
from helpers.slow_but import slow_but

import kbert
from kbert.models.classifier import BertClassifier
from kbert.models.encoder import BertEncoder

LTR = {"causal": True, "pooled_token": "last"}


def randomised(model):
    rng = np.random.default_rng(6)
    model.set_weights([rng.normal(size=w.shape) * 0.4 for w in model.get_weights()])
    return model


@pytest.mark.parametrize(
    "path",
    slow_but(("plain", "packed", "rematerialized"), ("plain", "packed", "xla", "probabilities", "rematerialized")),
)
def test_a_later_token_never_changes_an_earlier_output(path):
    encoder = randomised(
        BertEncoder(
            config(**LTR),
            ("sequence_output", "attention_probs") if path == "probabilities" else ("sequence_output",),
            num_parts=PARTS if path == "packed" else None,
            pooler=False,
        )
    )
    for block in encoder.blocks:
        block.rematerialize = path == "rematerialized"
    run = tf.function(encoder, jit_compile=True) if path == "xla" else encoder
    batch = packed_batch() if path == "packed" else plain_batch() | {"padding_mask": np.ones((BATCH, LENGTH), bool)}
    rng = np.random.default_rng(0)
    training = path == "rematerialized"
    before = np.array(run(batch, training=training)["sequence_output"])
    for place in range(1, LENGTH):
        changed = batch["token_ids"].copy()
        changed[:, place:] = rng.integers(0, SIZES["vocabulary_size"], changed[:, place:].shape)
        after = np.array(run(batch | {"token_ids": changed}, training=training)["sequence_output"])
        earlier = batch["padding_mask"][:, :place]  # outputs at padding have no meaning
        np.testing.assert_array_equal(before[:, :place][earlier], after[:, :place][earlier])
        moved = (changed[:, place] != batch["token_ids"][:, place]) & batch["padding_mask"][:, place]
        assert np.any(before[moved, place] != after[moved, place], axis=-1).all()


def test_the_last_token_is_pooled_in_packed_rows_too():
    packed = randomised(BertEncoder(config(**LTR), num_parts=PARTS))
    plain = BertEncoder(config(**LTR))
    plain.set_weights(packed.get_weights())
    batch = packed_batch()
    pooled = np.array(packed(batch)["pooled_output"])
    for row in range(BATCH):
        for part in range(1, PARTS + 1):
            [places] = np.nonzero(batch["part_ids"][row] == part)
            if not len(places):
                assert not pooled[row, part - 1].any()
                continue
            alone = {name: batch[name][row : row + 1, places] for name in ("token_ids", "segment_ids")}
            alone["padding_mask"] = np.ones((1, len(places)), bool)
            np.testing.assert_allclose(plain(alone)["pooled_output"][0], pooled[row, part - 1], atol=1e-5)
    view = packed.with_parts(None)
    np.testing.assert_array_equal(view(plain_batch())["pooled_output"], plain(plain_batch())["pooled_output"])


def test_a_classifier_of_a_left_to_right_model_reads_all_of_a_text():
    model = randomised(BertClassifier(config(**LTR), num_labels=LABELS))
    batch = plain_batch()
    last = batch["padding_mask"].sum(1) - 1
    other = batch["token_ids"].copy()
    other[np.arange(BATCH), last] = (other[np.arange(BATCH), last] + 1) % SIZES["vocabulary_size"]
    before, after = (np.array(model(batch | {"token_ids": ids})["logits"]) for ids in (batch["token_ids"], other))
    assert np.any(before != after, axis=-1).all()
    beyond = np.where(batch["padding_mask"], batch["token_ids"], 3)  # padding is no token
    np.testing.assert_array_equal(before, np.array(model(batch | {"token_ids": beyond})["logits"]))


def test_sinusoidal_positions_in_packed_rows():
    packed = randomised(BertEncoder(config(position_embedding="sinusoidal"), ("sequence_output",), PARTS, pooler=False))
    plain = packed.with_parts(None)
    batch = packed_batch()
    found = np.array(packed(batch)["sequence_output"])
    for row in range(BATCH):
        for part in range(1, batch["part_ids"][row].max() + 1):
            [places] = np.nonzero(batch["part_ids"][row] == part)
            alone = {name: batch[name][row : row + 1, places] for name in ("token_ids", "segment_ids")}
            alone["padding_mask"] = np.ones((1, len(places)), bool)
            np.testing.assert_allclose(plain(alone)["sequence_output"][0], found[row, places], atol=1e-5)


def test_sinusoidal_positions_have_no_weights_and_matter():
    learned, waves = (BertEncoder(config(position_embedding=name)) for name in ("learned", "sinusoidal"))
    assert learned.count_params() - waves.count_params() == SIZES["max_sequence_length"] * SIZES["hidden_dim"]
    ids = np.full((1, 4), 7, "int32")
    batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    states = np.array(waves(batch)["sequence_output"])[0]
    assert np.abs(states[0] - states[1]).max() > 1e-3  # the same token at two places
    with pytest.raises(ValueError, match="at most 11 tokens"):
        waves({name: np.tile(value, (1, 3)) for name, value in batch.items()})


@pytest.mark.parametrize("field", [{"position_embedding": "sinusoidal"}, LTR])
def test_google_cannot_say_it(field, tmp_path):
    with pytest.raises(ValueError, match='format="google" cannot hold (position_embedding|causal|pooled_token)'):
        kbert.save_pretrained(BertEncoder(config(num_layers=1, **field)), tmp_path / "it", format="google")
    assert not (tmp_path / "it").exists()


@pytest.mark.usefixtures("eagerly")
def test_a_mask_is_filled_from_what_is_on_its_left():
    model = randomised(kbert.BertPretrainer(config(**LTR), next_sentence=False))
    pipeline = kbert.build_pipeline(model, _tokenizer(), sequence_length=8, top_k=3)
    texts = ["w1 w2 [MASK] w3", "w1 w2 [MASK] w9 w9", "w2 w1 [MASK] w3"]
    answers = pipeline.predict(texts, verbose=0)
    tokens, probabilities = answers["tokens"], answers["probabilities"]
    np.testing.assert_array_equal(tokens[0], tokens[1])
    np.testing.assert_allclose(probabilities[0], probabilities[1], rtol=1e-5)
    assert np.abs(probabilities[0, 0] - probabilities[2, 0]).max() > 1e-4
    batch = {name: np.array(value) for name, value in pipeline.preprocessor(texts[:1]).items()}
    assert batch["mask_positions"][0, 0] == 2  # [CLS] w1 w2: the state at w2 predicts what follows
    logits = model({name: batch[name] for name in model.input})["mlm_logits"][0, 0]
    assert pipeline.tokenizer.vocabulary[int(np.argmax(logits))] == tokens[0, 0, 0]


def _tokenizer():
    words = [f"w{n}" for n in range(SIZES["vocabulary_size"] - 5)]
    return kbert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
