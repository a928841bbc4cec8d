"""Google's checkpoints: where they may lie, what is read beside the weights, and every way to be wrong."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from golden.google_make import VOCABULARY
from helpers.damage import cut, deleted, edited, put_lines
from helpers.google_checkpoints import ORIGINAL
from helpers.hf_directory import edit
from helpers.stored_models import assert_same_weights, load, make_model, save
from helpers.tiny_bert import VOCABULARY as TINY_VOCABULARY

import kbert
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile
from kbert.weights.open_checkpoint import open_checkpoint


@pytest.mark.parametrize(
    "name", ["", "bert_model.ckpt", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"]
)
def test_it_is_found_by_any_of_its_names(name):
    assert load(ORIGINAL / name, task="encoder").config.hidden_dim == 12


def test_the_output_of_a_training_run(tmp_path):
    """As run_pretraining.py leaves it: several checkpoints, and a file that names the latest."""
    for step in (10, 20):
        for file in ORIGINAL.glob("bert_model.ckpt.*"):
            shutil.copy(file, tmp_path / file.name.replace("bert_model.ckpt", f"model.ckpt-{step}"))
    shutil.copy(ORIGINAL / "bert_config.json", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"\['model.ckpt-10', 'model.ckpt-20'\]"):
        load(tmp_path)
    model = load(tmp_path / "model.ckpt-10")
    assert model.pretrained.tokenizer is None
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-20"\n')
    assert_same_weights(load(tmp_path), model)
    tokenizer = load(tmp_path, vocabulary=ORIGINAL / "vocab.txt").pretrained.tokenizer
    assert tokenizer.vocabulary == VOCABULARY and tokenizer.lowercase


def test_the_case_is_read_off_the_vocabulary(tmp_path):
    shutil.copytree(ORIGINAL, tmp_path / "cased")
    cased = [token.capitalize() if token.isalpha() else token for token in VOCABULARY]
    (tmp_path / "cased/vocab.txt").write_text("\n".join(cased) + "\n")
    loaded = load(tmp_path / "cased").pretrained
    assert loaded.tokenizer.lowercase is False
    assert any("looks cased: lowercase=False" in remark for remark in loaded.report.remarks)
    with pytest.warns(UserWarning, match="cased one, but the tokenizer lower-cases"):
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
    assert "optimizer's slots of 46 variables" in printed and "adam_m" not in printed
    rows = {row.variable: row for row in model.pretrained.report.rows if row.variable}
    assert rows["encoder_block_1/feed_forward/output/bias"].source == "bert/encoder/layer_1/output/dense/bias"
    assert {row.source.split("/")[1] for row in model.pretrained.report.unused} == {"predictions", "seq_relationship"}


# What can be wrong.


def rewrite(path, change):
    """The checkpoint with its tensors changed by a function of the dict of them."""
    file = TFCheckpointFile(path / "bert_model.ckpt")
    values = {name: file.read(name) for name in file.tensors}
    change(values)
    names = list(values)
    tensors = [tf.constant(values[name]) for name in names]
    tf.raw_ops.SaveV2(
        prefix=str(path / "bert_model.ckpt"), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
    )


DATA, CONFIG = "bert_model.ckpt.data-00000-of-00001", "bert_config.json"
KERNEL = "encoder_block_1/feed_forward/output/kernel"
DAMAGE = {
    "truncated data": (cut(DATA, -4000), r"truncated: the tensors named in the index take \d+ bytes. Received: \d+"),
    "truncated index": (cut("bert_model.ckpt.index", -100), "index cannot be read"),
    "no data": (deleted(DATA), "not the weights beside it"),
    "no config": (deleted(CONFIG), "Expected bert_config.json"),
    "broken config": (cut(CONFIG, -9), "bert_config.json.*: not JSON"),
    "no sizes in config": (edited(CONFIG, hidden_size=...), "does not say hidden_size"),
    "impossible config": (edited(CONFIG, num_attention_heads=5), f"{CONFIG}: `num_attention_heads` must divide"),
    "other shape": (edited(CONFIG, intermediate_size=21), f"{CONFIG}: `intermediate_size` is 21, but .*ckpt has 20"),
    "a layer more": (edited(CONFIG, num_hidden_layers=3), f"{CONFIG}: `num_hidden_layers` is 3, but .* has 2"),
    "unknown activation": (edited(CONFIG, hidden_act="swish"), "hidden_act='swish'"),
    "albert": (edited(CONFIG, num_hidden_groups=1), "an ALBERT"),
    "vocabulary too short": (put_lines("vocab.txt", VOCABULARY[:-2]), r"\(29\). Received: 27 tokens"),
    "vocabulary too long": (put_lines("vocab.txt", [*VOCABULARY, "more"]), r"\(29\). Received: 30 tokens"),
    "another model": (
        lambda path: rewrite(path, lambda values: [values.update({f"m/{n}": values.pop(n)}) for n in list(values)]),
        "holds no BERT in Google's names",
    ),
    "missing variable": (
        lambda path: rewrite(path, lambda values: values.pop("bert/encoder/layer_1/output/dense/kernel")),
        f"lacks 1 variables of the encoder: {KERNEL}",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_before_anything_is_built(kind, tmp_path, monkeypatch):
    shutil.copytree(ORIGINAL, tmp_path / "it")
    damage, message = DAMAGE[kind]
    damage(tmp_path / "it")
    monkeypatch.setattr(kbert.BertEncoder, "__init__", None)  # building would fail otherwise
    with pytest.raises(FileNotFoundError if kind in ("no data", "no config") else ValueError, match=message):
        load(tmp_path / "it")


def test_the_multilingual_releases(tmp_path):
    """Their config says more than BERT has; checkpoints of theirs are laid out as all others."""
    shutil.copytree(ORIGINAL, tmp_path / "it")
    more = {"directionality": "bidi", "pooler_fc_size": 768, "pooler_num_fc_layers": 3, "pooler_type": "first_token"}
    edit(tmp_path / "it/bert_config.json", **more)
    assert open_checkpoint(tmp_path / "it").description == open_checkpoint(ORIGINAL).description


def test_a_flipped_bit_is_noticed(tmp_path):
    """TensorFlow keeps a checksum of every tensor."""
    shutil.copytree(ORIGINAL, tmp_path / "it")
    data = tmp_path / "it/bert_model.ckpt.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    for place in range(0, len(content), 40):
        content[place] ^= 1
    data.write_bytes(content)
    with pytest.raises(ValueError, match="the tensor '.*' cannot be read"):
        load(tmp_path / "it")


def test_values_that_are_no_numbers(tmp_path):
    shutil.copytree(ORIGINAL, tmp_path / "it")
    rewrite(tmp_path / "it", lambda values: values["bert/pooler/dense/bias"].fill(np.nan))
    with pytest.raises(ValueError, match="bert/pooler/dense/bias.*not finite"):
        load(tmp_path / "it")


def test_a_checkpoint_of_objects_is_no_checkpoint_of_names(tmp_path):
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "bert_model.ckpt"))
    shutil.copy(ORIGINAL / "bert_config.json", tmp_path)
    with pytest.raises(ValueError, match="a checkpoint of objects"):
        load(tmp_path)


def test_overwriting(tmp_path):
    save(make_model("encoder"), tmp_path / "out", "google")
    other = make_model("encoder", num_layers=1)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save(other, tmp_path / "out", "google")
    save(other, tmp_path / "out", "google", overwrite=True)
    assert_same_weights(load(tmp_path / "out"), other)
    (tmp_path / "out/notes.md").write_text("precious")
    with pytest.raises(FileExistsError, match="notes.md"):
        save(other, tmp_path / "out", "google", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


def test_a_damaged_settings_file_is_named(tmp_path):
    save(make_model("classification"), tmp_path / "out", "google")
    (tmp_path / "out/kbert_settings.json").write_text('{"lables": []}')
    with pytest.raises(ValueError, match="kbert_settings.json is damaged.*lables"):
        load(tmp_path / "out")
    (tmp_path / "out/kbert_settings.json").unlink()
    loaded = load(tmp_path / "out").pretrained
    assert loaded.settings.task.labels is None and loaded.tokenizer.vocabulary == TINY_VOCABULARY
