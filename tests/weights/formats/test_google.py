"""Google's checkpoints: those its own code wrote, where they may lie, the optimizer's state."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest
from golden.google_make import LABELS, PEAK, STEPS_AFTER, STEPS_BEFORE, TOTAL, VOCABULARY, WARMUP, make_batches
from helpers.google_checkpoints import GOLDEN, ORIGINAL, expected, features
from helpers.hf_directory import edit
from helpers.stored_models import assert_same_weights, load, make_model, save
from helpers.tiny_bert import randomise

import kbert
from kbert.files import read_json
from kbert.optim.losses import MaskedLanguageModelLoss, NextSentenceLoss
from kbert.optim.schedule import WarmupLinearDecay
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile
from kbert.weights.formats.export_tensors import export_tensors
from kbert.weights.formats.google import NAMES, load_slots
from kbert.weights.open_checkpoint import open_checkpoint
from kbert.weights.parity import measure_parity


def close(found, wanted):
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), wanted, rtol=0, atol=1e-5)


def test_the_originals_checkpoint_computes_the_same():
    values, batch = expected("pretraining"), make_batches(1)[0]
    model = load(ORIGINAL)
    assert model.task == "pretraining" and model.config.activation == "gelu_tanh"
    outputs = model(features(batch, "mask_positions"), training=False)
    close(keras.ops.log_softmax(outputs["mlm_logits"]), values["mlm_log_probs"])
    close(keras.ops.log_softmax(outputs["nsp_logits"]), values["nsp_log_probs"])
    encoder = load(ORIGINAL, task="encoder", outputs=("hidden_states", "pooled_output"))
    outputs = encoder(features(batch), training=False)
    close(keras.ops.stack(outputs["hidden_states"]), values["hidden_states"])  # padded rows too
    close(outputs["pooled_output"], values["pooled_output"])


def test_the_originals_classifier_and_squad_heads():
    batch = features(make_batches(1)[0])
    classifier = load(GOLDEN / "google_classifier")
    assert (classifier.task, classifier.num_labels) == ("classification", LABELS)
    close(classifier(batch, training=False)["logits"], expected("classifier")["logits"])
    span = load(GOLDEN / "google_squad")
    assert span.task == "span" and span.encoder.pooler is not None
    outputs = span(batch, training=False)
    close(outputs["start_logits"], expected("squad")["start_logits"])
    close(outputs["end_logits"], expected("squad")["end_logits"])


def test_parity_needs_no_other_library_and_sees_a_wrong_weight():
    model = load(ORIGINAL)
    report = measure_parity(model, ORIGINAL)
    states = {f"hidden_states/{i}" for i in range(3)}
    assert set(report.differences) == states | {"pooled_output", "mlm_logits", "nsp_logits"}
    assert max(report.differences.values()) < 1e-5 and min(report.largest.values()) > 0.1
    assert len(report.lines()) == 7 and json.dumps(report.to_dict())
    kernel = next(v for v in model.weights if v.path == "encoder_block_1/attention/query/kernel")
    kernel.assign(keras.ops.transpose(kernel))
    differences = measure_parity(model, ORIGINAL).differences
    assert differences["hidden_states/1"] < 1e-5 < 1e-3 < differences["hidden_states/2"]


# Where it may lie, and what is read beside the weights.


@pytest.mark.parametrize(
    "name", ["", "bert_model.ckpt", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"]
)
def test_it_is_found_by_any_of_its_names(name):
    assert open_checkpoint(ORIGINAL / name).description.config.hidden_dim == 12


def test_the_output_of_a_training_run(tmp_path):
    """As run_pretraining.py leaves it: several checkpoints, and a file that names the latest."""
    for step in (10, 20):
        for file in ORIGINAL.glob("bert_model.ckpt.*"):
            shutil.copy(file, tmp_path / file.name.replace("bert_model.ckpt", f"model.ckpt-{step}"))
    shutil.copy(ORIGINAL / "bert_config.json", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"\['model.ckpt-10', 'model.ckpt-20'\]"):
        open_checkpoint(tmp_path)
    stored = open_checkpoint(tmp_path / "model.ckpt-10")
    assert stored.vocabulary is None and stored.tensors.path.name == "model.ckpt-10"
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-20"\n')
    stored = open_checkpoint(tmp_path, vocabulary=ORIGINAL / "vocab.txt")
    assert stored.vocabulary == VOCABULARY and stored.tensors.path.name == "model.ckpt-20"


def test_the_case_is_read_off_the_vocabulary(tmp_path):
    shutil.copytree(ORIGINAL, tmp_path / "cased")
    cased = [token.capitalize() if token.isalpha() else token for token in VOCABULARY]
    (tmp_path / "cased/vocab.txt").write_text("\n".join(cased) + "\n")
    stored = open_checkpoint(tmp_path / "cased")
    assert stored.settings.tokenizer["lowercase"] is False
    assert any("looks cased: lowercase=False" in remark for remark in stored.remarks)


def test_the_report_names_every_variable(caplog):
    caplog.set_level("DEBUG", logger="kbert")
    model = kbert.load_pretrained(ORIGINAL, task="classification")
    printed = "\n".join(r.getMessage() for r in caplog.records if r.levelname != "DEBUG")
    assert "classifier_head: newly initialised (2 variables not in" in printed and "cls: unused (7 " in printed
    assert "neither `labels` nor `num_labels` is given or stored; the head has 2 labels" in printed
    assert len(printed.splitlines()) == 4 and model.num_labels == 2
    printed = "\n".join(record.getMessage() for record in caplog.records)
    assert "encoder_block_*/attention/query/kernel" in printed and "(2 layers)" in printed
    assert "bert/encoder/layer_*/attention/self/query/kernel  loaded" in printed
    assert "optimizer's slots of 46 variables" in printed and "adam_m" not in printed
    rows = {row.variable: row for row in model.pretrained.report.rows if row.variable}
    assert rows["encoder_block_1/feed_forward/output/bias"].source == "bert/encoder/layer_1/output/dense/bias"
    assert {row.source.split("/")[1] for row in model.pretrained.report.unused} == {"predictions", "seq_relationship"}


def test_the_multilingual_releases(tmp_path):
    """Their config says more than BERT has; checkpoints of theirs are laid out as all others."""
    shutil.copytree(ORIGINAL, tmp_path / "it")
    edit(tmp_path / "it/bert_config.json", directionality="bidi", pooler_fc_size=768, pooler_type="first_token")
    assert open_checkpoint(tmp_path / "it").description == open_checkpoint(ORIGINAL).description


# The optimizer's state: training goes on exactly where it stopped, theirs or ours.


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
    final = {name.removeprefix("final/"): value for name, value in values.items() if name.startswith("final/")}
    found = {name: value() for name, (_, value) in export_tensors(NAMES, model).items()}
    assert set(found) == {name for name in final if not name.endswith(("adam_m", "adam_v", "global_step"))}
    for name, value in found.items():  # the keys' biases have no gradient but rounding
        np.testing.assert_allclose(value, final[name], rtol=0, atol=2e-5, err_msg=name)


def test_what_was_read_is_written_back_bit_for_bit(tmp_path):
    model = compiled(load(ORIGINAL))
    load_slots(model.optimizer, model, ORIGINAL)
    kbert.save_pretrained(model, tmp_path / "out", format="google", optimizer=model.optimizer)
    one, other = TFCheckpointFile(ORIGINAL / "bert_model.ckpt"), TFCheckpointFile(tmp_path / "out/bert_model.ckpt")
    assert one.tensors == other.tensors  # names, shapes and types: slots and global_step (int64) among them
    for name in one.tensors:
        np.testing.assert_array_equal(one.read(name), other.read(name), err_msg=name)
    assert read_json(tmp_path / "out/bert_config.json") == read_json(ORIGINAL / "bert_config.json")
    assert (tmp_path / "out/vocab.txt").read_text() == (ORIGINAL / "vocab.txt").read_text()


def test_an_exact_continuation(tmp_path):
    one, other = make_batches(2, seed=3)
    model = compiled(randomise(kbert.BertPretrainer(dataclasses.replace(load(ORIGINAL).config, num_layers=1))))
    train(model, [one])
    kbert.save_pretrained(model, tmp_path / "at-1", format="google", optimizer=model.optimizer)
    train(model, [other])
    resumed = compiled(load(tmp_path / "at-1"))
    assert load_slots(resumed.optimizer, resumed, tmp_path / "at-1") == 1
    train(resumed, [other])
    assert_same_weights(resumed, model)
    without = compiled(load(tmp_path / "at-1"))
    train(without, [other])
    assert any(np.any(a != b) for a, b in zip(without.get_weights(), model.get_weights(), strict=True))


def test_slots_that_are_not_there(tmp_path):
    model = make_model("pretraining")
    save(model, tmp_path / "out", "google")
    with pytest.raises(ValueError, match="lacks .* of the optimizer's values"):
        load_slots(kbert.AdamW(), model, tmp_path / "out")
    with pytest.raises(ValueError, match="kbert.AdamW"):
        load_slots(keras.optimizers.Adam(), model, ORIGINAL)
    with pytest.raises(ValueError, match=r"format='huggingface' takes no .optimizer.. Only \['google'\] take it"):
        save(model, tmp_path / "hf", "huggingface", optimizer=kbert.AdamW())
    with pytest.raises(ValueError, match="was not built"):
        save(model, tmp_path / "no", "google", optimizer=kbert.AdamW())
