"""Google's checkpoints: those its own code wrote, where they may lie, the optimizer's state."""

import json
import shutil

import keras
import numpy as np
import pytest
from golden.google_make import (
    LABELS,
    PEAK,
    STEPS_AFTER,
    STEPS_BEFORE,
    TOTAL,
    VOCABULARY,
    WARMUP,
    make_batches,
)
from helpers.google_checkpoints import GOLDEN, ORIGINAL, expected, features
from helpers.hf_directory import edit
from helpers.parity import measure_parity
from helpers.stored_models import assert_same_weights, load

import kbert
from kbert.optim.losses import MaskedLanguageModelLoss, NextSentenceLoss
from kbert.optim.schedule import WarmupLinearDecay
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile
from kbert.weights.formats.export_tensors import export_tensors
from kbert.weights.formats.google import NAMES
from kbert.weights.source import open_checkpoint


def close(found, wanted, atol=1e-5):
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), wanted, rtol=0, atol=atol)


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


def test_parity_needs_no_other_library():
    report = measure_parity(load(ORIGINAL), ORIGINAL)
    assert set(report.differences) == {
        *(f"hidden_states/{i}" for i in range(3)),
        "pooled_output",
        "mlm_logits",
        "nsp_logits",
    }
    assert max(report.differences.values()) < 1e-5 and min(report.largest.values()) > 0.1


def test_parity_sees_a_wrong_weight():
    model = load(ORIGINAL)
    kernel = next(v for v in model.weights if v.path == "encoder_block_1/attention/query/kernel")
    kernel.assign(keras.ops.transpose(kernel))
    report = measure_parity(model, ORIGINAL)
    assert report.differences["hidden_states/1"] < 1e-5 < 1e-3 < report.differences["hidden_states/2"]


# Where it may lie, and what is read beside the weights.


@pytest.mark.parametrize(
    "name", ["", "bert_model.ckpt", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"]
)
def test_it_is_found_by_any_of_its_names(name):
    assert load(ORIGINAL / name, task="encoder").config.hidden_dim == 12


@pytest.mark.parametrize("place", ["plain", "run[a]", "[!x]", "back\\slash", "a[", "star*"])
@pytest.mark.parametrize("name", ["bert_model.ckpt", "model[1].ckpt"])
def test_characters_that_tensorflow_reads_as_a_pattern(tmp_path, place, name):
    """It looks for checkpoints by glob, and does not find its own file below a directory named "[a]"."""
    directory = tmp_path / place
    directory.mkdir()
    shutil.copy(ORIGINAL / "bert_config.json", directory)
    for file in ORIGINAL.glob("bert_model.ckpt.*"):
        shutil.copy(file, directory / file.name.replace("bert_model.ckpt", name))
    model = load(ORIGINAL)
    assert_same_weights(load(directory), model)
    assert_same_weights(load(directory / name), model)
    kbert.save_pretrained(model, directory / "saved", format="google")
    assert_same_weights(load(directory / "saved"), model)


def test_the_output_of_a_training_run(tmp_path):
    """As run_pretraining.py leaves it, with several checkpoints: one has to be named."""
    for step in (10, 20):
        for file in ORIGINAL.glob("bert_model.ckpt.*"):
            shutil.copy(file, tmp_path / file.name.replace("bert_model.ckpt", f"model.ckpt-{step}"))
    shutil.copy(ORIGINAL / "bert_config.json", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"\['model.ckpt-10', 'model.ckpt-20'\]"):
        load(tmp_path)
    model = load(tmp_path / "model.ckpt-10")
    assert model.pretrained.tokenizer is None
    assert_same_weights(model, load(ORIGINAL))
    tokenizer = load(tmp_path / "model.ckpt-10", vocabulary=ORIGINAL / "vocab.txt").pretrained.tokenizer
    assert tokenizer.vocabulary == VOCABULARY and tokenizer.lowercase


def test_the_case_is_read_off_the_vocabulary(tmp_path):
    shutil.copytree(ORIGINAL, tmp_path / "cased")
    cased = [token.capitalize() if token.isalpha() else token for token in VOCABULARY]
    (tmp_path / "cased/vocab.txt").write_text("\n".join(cased) + "\n")
    loaded = load(tmp_path / "cased").pretrained
    assert loaded.tokenizer.lowercase is False
    assert any("looks cased: lowercase=False" in remark for remark in loaded.report.remarks)
    with pytest.warns(UserWarning, match="a cased one, but the tokenizer has lowercase=True"):
        load(tmp_path / "cased", lowercase=True)


def test_a_head_without_a_number_of_labels_has_two(caplog):
    assert load(ORIGINAL, task="classification").num_labels == 2
    assert "classification: neither `labels` nor `num_labels` is given or stored; the head has 2 labels" in caplog.text


def test_the_report_names_every_variable(caplog):
    caplog.set_level("DEBUG", logger="kbert")
    model = kbert.load_pretrained(ORIGINAL, task="classification", labels=["a", "b"])
    printed = "\n".join(r.getMessage() for r in caplog.records if r.levelname != "DEBUG")
    assert "classifier_head: newly initialised (2 variables not in" in printed and "cls: unused (7 " in printed
    assert len(printed.splitlines()) == 3
    assert "num_labels" not in printed
    printed = "\n".join(record.getMessage() for record in caplog.records)
    assert "encoder_block_*/attention/query/kernel" in printed and "(2 layers)" in printed
    assert "bert/encoder/layer_*/attention/self/query/kernel  loaded" in printed
    assert "adam_m" not in printed
    rows = {row.variable: row for row in model.pretrained.report.rows if row.variable}
    assert rows["encoder_block_1/feed_forward/output/bias"].source == "bert/encoder/layer_1/output/dense/bias"
    assert {row.source.split("/")[1] for row in model.pretrained.report.unused} == {"predictions", "seq_relationship"}


def test_the_multilingual_releases(tmp_path):
    """Their config says more than BERT has; checkpoints of theirs are laid out as all others."""
    shutil.copytree(ORIGINAL, tmp_path / "it")
    more = {"directionality": "bidi", "pooler_fc_size": 768, "pooler_num_fc_layers": 3, "pooler_type": "first_token"}
    edit(tmp_path / "it/bert_config.json", **more)
    assert open_checkpoint(tmp_path / "it").description == open_checkpoint(ORIGINAL).description


# Training continues from the moments that Google's code stored as Google's code did.


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


def load_slots(model):
    """Gives the optimizer the moments and the step that Google's code stored."""
    file, optimizer = TFCheckpointFile(ORIGINAL / "bert_model.ckpt"), model.optimizer
    optimizer.build(model.trainable_variables)
    optimizer.iterations.assign(int(file.read("global_step")))
    for index, variable in enumerate(model.trainable_variables):
        tensor = NAMES.find(variable.path)
        for slot, moments in (("/adam_m", optimizer._momentums), ("/adam_v", optimizer._velocities)):
            values = file.read(tensor.name + slot)
            moments[index].assign(values.T if tensor.transposed else values)


def test_training_goes_on_as_the_originals_did():
    values = expected("pretraining")
    model = compiled(load(ORIGINAL))
    load_slots(model)
    assert int(model.optimizer.iterations) == STEPS_BEFORE
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
    kbert.save_pretrained(load(ORIGINAL), tmp_path / "out", format="google")
    one, other = TFCheckpointFile(ORIGINAL / "bert_model.ckpt"), TFCheckpointFile(tmp_path / "out/bert_model.ckpt")
    weights = {name for name in one.tensors if not name.endswith(("adam_m", "adam_v", "global_step"))}
    assert other.tensors == {name: one.tensors[name] for name in weights}  # names, shapes and types
    for name in weights:
        np.testing.assert_array_equal(one.read(name), other.read(name), err_msg=name)
    assert json.loads((tmp_path / "out/bert_config.json").read_text()) == json.loads(
        (ORIGINAL / "bert_config.json").read_text()
    )
    assert (tmp_path / "out/vocab.txt").read_text() == (ORIGINAL / "vocab.txt").read_text()
