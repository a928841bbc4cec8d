"""pipeline.fit of masked language models: strings in every form, masks of their own each epoch, all by the seed."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_corpus import make_documents, make_pretrainer, make_tokenizer

import kbert
from kbert.corpus.document_list import DocumentList
from kbert.pretraining.dataset import pretraining_dataset

DOCUMENTS = make_documents(30, seed=2, sizes=(1, 3), words=(2, 5))
TEXTS = [sentence for document in DOCUMENTS for sentence in document]
S, P, B = 32, 5, 8


def build(next_sentence=True, **masking):
    model = make_pretrainer(S, hidden_dropout=0.0, attention_dropout=0.0)
    if not next_sentence:
        model = kbert.BertPretrainer(model.encoder, next_sentence=False)
    pipeline = kbert.build_pipeline(model, make_tokenizer(), sequence_length=S, top_k=2, masking=masking)
    pipeline.compile(kbert.AdamW(0.01))
    return pipeline


def batches_of(pipeline, x, *labels, step=0, **options):
    options = {"batch_size": B, "next_sentence": True, "step": None if step is None else lambda: step} | options
    return list(pipeline.preprocessor.training_batches(x, *labels, **options).as_numpy_iterator())


def rows_of(batches):
    """Rows of non-zero weight as hashable values, in any order."""
    rows = []
    for inputs, labels, weights in batches:
        real = weights["mlm_logits"].sum(1) > 0
        columns = (inputs["token_ids"], inputs["mask_positions"], labels["mlm_logits"])
        rows += [tuple(np.concatenate(row).tolist()) for row in zip(*(c[real] for c in columns), strict=True)]
    return sorted(rows)


def test_rows_and_masks_are_those_of_pretraining_dataset():
    pipeline = build(seed=3, max_predictions=P)
    options = {"batch_size": B, "sequence_length": S, "max_predictions": P, "seed": 3, "held_out": 0.0}
    own = batches_of(pipeline, DOCUMENTS)
    expected = list(pretraining_dataset(DocumentList(DOCUMENTS), make_tokenizer(), epochs=1, **options))
    assert len(expected) > 2
    for one, other in zip(own[: len(expected)], expected, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
    documents = DocumentList([[text] for text in TEXTS])
    options |= {"next_sentence": False, "short_sequence_rate": 0.0, "epochs": lambda: [0, 7]}
    expected = [
        tf.nest.map_structure(np.asarray, batch)
        for batch in pretraining_dataset(documents, make_tokenizer(), **options)
    ]
    own = rows_of(batches_of(pipeline, TEXTS) + batches_of(pipeline, TEXTS, step=7))
    assert own == rows_of(expected)


def test_each_epoch_has_masks_of_its_own_and_the_seed_decides_all():
    one, again = build(seed=3), build(seed=3)
    assert rows_of(batches_of(one, TEXTS)) == rows_of(batches_of(again, TEXTS))
    assert rows_of(batches_of(one, TEXTS)) != rows_of(batches_of(one, TEXTS, step=5))
    assert rows_of(batches_of(one, TEXTS)) != rows_of(batches_of(build(seed=4), TEXTS))
    fixed = [rows_of(batches_of(pipeline, TEXTS, step=None)) for pipeline in (one, build(seed=4))]
    assert fixed[0] == fixed[1]


def test_fit_in_every_form_falls_and_continues(tmp_path):
    pipeline = build(seed=1)
    data = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4)
    for x in (TEXTS, {"text": TEXTS}, data, DOCUMENTS):
        history = pipeline.fit(x, batch_size=B, epochs=2, validation_data=(TEXTS[:9],), verbose=0).history
        assert np.isfinite(history["loss"]).all() and "val_loss" in history
    before = pipeline.evaluate(TEXTS, verbose=0, return_dict=True)["loss"]
    assert before == pytest.approx(pipeline.evaluate(TEXTS, verbose=0, return_dict=True)["loss"])
    pipeline.save(tmp_path / "p.keras")
    again = keras.models.load_model(tmp_path / "p.keras")
    assert again.fit(TEXTS, epochs=1, verbose=0).history == pipeline.fit(TEXTS, epochs=1, verbose=0).history
    assert pipeline.predict(["a [MASK] ."])["tokens"].shape[0] == 1


def test_windows_pairs_labels_and_weights():
    pipeline = build(seed=1)
    long = " ".join(["a b c d e f g"] * 20)
    rows = batches_of(pipeline, [long])
    inputs, labels, weights = rows[0]
    assert np.sum(inputs["padding_mask"][weights["mlm_logits"].sum(1) > 0]) == 140 + 2 * 5  # 30 tokens a window
    assert not weights["nsp_logits"].any() and inputs["token_ids"].shape == (B, S)
    pairs = {"text": TEXTS[:8], "text_pair": TEXTS[1:9]}
    y, weight = [0, 1, 0, 1, 0, 1, -1, 0], [1.0, 2, 1, 1, 1, 1, 1, 0.0]
    ((inputs, labels, weights),) = batches_of(pipeline, pairs, {"nsp_logits": y}, weight, shuffle=False)
    order = np.argsort(labels["nsp_logits"], kind="stable")
    assert sorted(weights["nsp_logits"].tolist()) == [0, 0, 1, 1, 1, 1, 1, 2] and len(order) == 8
    assert inputs["segment_ids"].max() == 1
    with pytest.raises(ValueError, match="only pairs"):
        pipeline.fit(TEXTS, [0] * len(TEXTS))
    with pytest.raises(ValueError, match="masking"):
        build(rate=0.2)


def test_a_masked_language_model_without_next_sentences_and_its_settings(tmp_path):
    pipeline = build(next_sentence=False, whole_word=True, mask_rate=0.3)
    pipeline.fit(TEXTS, epochs=1, verbose=0, validation_split=0.2)
    kbert.save_pretrained(pipeline, tmp_path / "saved")
    stored = kbert.build_pipeline(tmp_path / "saved").preprocessor.masking
    assert stored == {"whole_word": True, "mask_rate": 0.3}
