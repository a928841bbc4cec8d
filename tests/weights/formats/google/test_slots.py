"""The optimizer's state in Google's checkpoints: training goes on exactly where it stopped, theirs or ours."""

import json

import keras
import numpy as np
import pytest
from golden.google_make import PEAK, STEPS_AFTER, STEPS_BEFORE, TOTAL, WARMUP, make_batches
from helpers.google_checkpoints import ORIGINAL, expected, features
from helpers.stored_models import assert_same_weights, load, make_model, save

import kbert
from kbert.optim.losses import MaskedLanguageModelLoss, NextSentenceLoss
from kbert.optim.schedule import WarmupLinearDecay
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile
from kbert.weights.formats.export_tensors import export_tensors
from kbert.weights.formats.google.names import NAMES
from kbert.weights.formats.google.slots import load_slots


def train(model, batches):
    """Steps on the batches; their losses."""
    return [
        model.train_on_batch(
            features(batch, "mask_positions"),
            {"mlm_logits": batch["mask_ids"], "nsp_logits": batch["next_sentence_label"]},
            {"mlm_logits": batch["mask_weights"], "nsp_logits": np.ones(len(batch["token_ids"]), "float32")},
        )
        for batch in batches
    ]


def compiled(model):
    losses = {"mlm_logits": MaskedLanguageModelLoss(), "nsp_logits": NextSentenceLoss()}
    # Eagerly: building the graph of a step takes longer than the few steps taken here.
    model.compile(kbert.AdamW(WarmupLinearDecay(PEAK, WARMUP, TOTAL)), losses, run_eagerly=True)
    return model


def test_training_goes_on_as_the_originals_did():
    values = expected("pretraining")
    model = compiled(load(ORIGINAL))
    assert load_slots(model.optimizer, model, ORIGINAL) == STEPS_BEFORE
    losses = train(model, make_batches(STEPS_BEFORE + STEPS_AFTER)[STEPS_BEFORE:])
    np.testing.assert_allclose([loss[0] for loss in losses], values["losses"], rtol=1e-5)
    fresh = load(ORIGINAL)
    moved = max(np.max(np.abs(a - b)) for a, b in zip(model.get_weights(), fresh.get_weights(), strict=True))
    assert moved > 0.01  # it did train
    final = {name.removeprefix("final/"): value for name, value in values.items() if name.startswith("final/")}
    check_equals_checkpoint(model, final, atol=2e-5)  # the keys' biases have no gradient but rounding


def check_equals_checkpoint(model, values, atol):
    found = {name: value() for name, (_, value) in export_tensors(NAMES, model).items()}
    names = {name for name in values if not name.endswith(("adam_m", "adam_v", "global_step"))}
    assert set(found) == names
    for name, value in found.items():
        np.testing.assert_allclose(value, values[name], rtol=0, atol=atol, err_msg=name)


def test_what_was_read_is_written_back_bit_for_bit(tmp_path):
    model = compiled(load(ORIGINAL))
    load_slots(model.optimizer, model, ORIGINAL)
    kbert.save_pretrained(model, tmp_path / "out", format="google", optimizer=model.optimizer)
    one, other = TFCheckpointFile(ORIGINAL / "bert_model.ckpt"), TFCheckpointFile(tmp_path / "out/bert_model.ckpt")
    assert one.tensors == other.tensors  # names, shapes and types: slots and global_step (int64) among them
    for name in one.tensors:
        np.testing.assert_array_equal(one.read(name), other.read(name), err_msg=name)
    assert json.loads((tmp_path / "out/bert_config.json").read_text()) == json.loads(
        (ORIGINAL / "bert_config.json").read_text()
    )
    assert (tmp_path / "out/vocab.txt").read_text() == (ORIGINAL / "vocab.txt").read_text()


def test_an_exact_continuation(tmp_path):
    batches = make_batches(4, seed=3)
    config = load(ORIGINAL).config
    keras.utils.set_random_seed(5)
    whole = compiled(kbert.BertPretrainer(config))
    train(whole, batches)
    keras.utils.set_random_seed(5)
    first = compiled(kbert.BertPretrainer(config))
    train(first, batches[:2])
    kbert.save_pretrained(first, tmp_path / "at-2", format="google", optimizer=first.optimizer)
    second = compiled(load(tmp_path / "at-2"))
    assert load_slots(second.optimizer, second, tmp_path / "at-2") == 2
    train(second, batches[2:])
    assert_same_weights(second, whole)
    without = compiled(load(tmp_path / "at-2"))
    train(without, batches[2:])
    assert any(np.any(a != b) for a, b in zip(without.get_weights(), whole.get_weights(), strict=True))


def test_slots_that_are_not_there(tmp_path):
    save(make_model("pretraining"), tmp_path / "out", "google")
    model = compiled(load(tmp_path / "out"))
    with pytest.raises(ValueError, match="lacks .* of the optimizer's values"):
        load_slots(model.optimizer, model, tmp_path / "out")
    with pytest.raises(ValueError, match="kbert.AdamW"):
        load_slots(keras.optimizers.Adam(), model, ORIGINAL)
    with pytest.raises(ValueError, match=r"format='huggingface' takes no .optimizer.. Only \['google'\] take it"):
        kbert.save_pretrained(model, tmp_path / "hf", format="huggingface", optimizer=model.optimizer)
    with pytest.raises(ValueError, match="was not built"):
        kbert.save_pretrained(model, tmp_path / "no", format="google", optimizer=kbert.AdamW())
