"""Google's checkpoints: those its own code wrote, round trips, an exact continuation, and every way to be wrong."""

import json
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from golden.google_make import LABELS, PEAK, STEPS_AFTER, STEPS_BEFORE, TOTAL, VOCABULARY, WARMUP, make_batches
from helpers.stored_models import assert_same_model, assert_same_weights, load, make_model, save
from helpers.tiny_bert import VOCABULARY as TINY_VOCABULARY

import kbert
from kbert.optim.losses import MaskedLanguageModelLoss, NextSentenceLoss
from kbert.optim.schedule import WarmupLinearDecay
from kbert.weights.google_slots import load_slots
from kbert.weights.parity import measure_parity
from kbert.weights.tf_checkpoint_file import TFCheckpointFile

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
ORIGINAL = GOLDEN / "google_pretraining"
BATCH_KEYS = ("token_ids", "segment_ids", "padding_mask")


def expected(task):
    with np.load(GOLDEN / "google_values.npz") as values:
        return {k.removeprefix(task + "/"): values[k] for k in values if k.startswith(task + "/")}


def features(batch, *more):
    return {name: batch[name] for name in (*BATCH_KEYS, *more)}


def close(found, wanted, atol=1e-5):
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), wanted, rtol=0, atol=atol)


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


# What Google's code wrote.


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
    from kbert.weights.outgoing import outgoing

    found = {name: value() for name, (_, value) in outgoing("google", model).items()}
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


def test_parity_needs_no_other_library():
    report = measure_parity(load(ORIGINAL), ORIGINAL)
    assert set(report.differences) == {
        *(f"hidden_states/{i}" for i in range(3)), "pooled_output", "mlm_logits", "nsp_logits"
    }  # fmt: skip
    assert max(report.differences.values()) < 1e-5 and min(report.largest.values()) > 0.1
    assert len(report.lines()) == 7 and json.dumps(report.to_dict())


def test_parity_sees_a_wrong_weight():
    model = load(ORIGINAL)
    kernel = next(v for v in model.weights if v.path == "encoder_block_1/attention/query/kernel")
    kernel.assign(keras.ops.transpose(kernel))
    report = measure_parity(model, ORIGINAL)
    assert report.differences["hidden_states/1"] < 1e-5 < 1e-3 < report.differences["hidden_states/2"]


# Round trips.

HELD = ("encoder", "pretraining", "masked_lm with pooler", "next_sentence", "classification", "regression",
        "span with pooler")  # fmt: skip


@pytest.mark.parametrize(
    "name,activation", [*((name, "gelu_tanh") for name in HELD), ("encoder", "relu"), ("encoder", "tanh")]
)
def test_round_trip(name, activation, tmp_path):
    model = make_model(name, activation=activation, hidden_dropout=0.3, attention_dropout=0.2, num_segments=3)
    save(model, tmp_path / "out", "google")
    loaded = load(tmp_path / "out")
    assert_same_model(loaded, model)
    report = measure_parity(loaded, tmp_path / "out")
    assert max(report.differences.values()) < 1e-5
    save(loaded, tmp_path / "again", "google")
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()
    }


@pytest.mark.parametrize(
    "name,fields,reason",
    [
        ("encoder", {"activation": "gelu_erf"}, '"gelu" is the tanh form, and there is no name for the erf form'),
        ("encoder", {"activation": "silu"}, "cannot hold activation='silu'"),
        ("encoder", {"layer_norm_epsilon": 1e-5}, "cannot hold layer_norm_epsilon=1e-05.*means 1e-12"),
        ("encoder", {"causal": True}, "cannot hold causal=True"),
        ("encoder without pooler", {}, "without pooler: BertModel in its modeling.py always has one"),
        ("masked_lm", {}, "without pooler"),
        ("pretraining, untied", {}, "untied decoder"),
        ("masked_lm as KerasHub's", {}, "masked-LM head with activation and LayerNorm epsilon"),
        ("tagging", {}, "tagging head"),
        ("multiple_choice", {}, "multiple-choice head"),
    ],
)
def test_what_it_cannot_hold_is_refused(name, fields, reason, tmp_path):
    with pytest.raises(ValueError, match=f'format="google".*{reason}'):
        save(make_model(name, **fields), tmp_path / "out", "google")
    assert not list(tmp_path.iterdir())


def test_an_exact_continuation(tmp_path):
    batches = make_batches(7, seed=3)
    config = load(ORIGINAL).config
    keras.utils.set_random_seed(5)
    whole = compiled(kbert.BertPretrainer(config))
    train(whole, batches)
    keras.utils.set_random_seed(5)
    first = compiled(kbert.BertPretrainer(config))
    train(first, batches[:3])
    kbert.save_pretrained(first, tmp_path / "at-3", format="google", optimizer=first.optimizer)
    second = compiled(load(tmp_path / "at-3"))
    assert load_slots(second.optimizer, second, tmp_path / "at-3") == 3
    train(second, batches[3:])
    assert_same_weights(second, whole)
    without = compiled(load(tmp_path / "at-3"))
    train(without, batches[3:])
    assert any(np.any(a != b) for a, b in zip(without.get_weights(), whole.get_weights(), strict=True))


def test_slots_that_are_not_there(tmp_path):
    save(make_model("pretraining"), tmp_path / "out", "google")
    model = compiled(load(tmp_path / "out"))
    with pytest.raises(ValueError, match="lacks .* of the optimizer's values"):
        load_slots(model.optimizer, model, tmp_path / "out")
    with pytest.raises(ValueError, match="kbert.AdamW"):
        load_slots(keras.optimizers.Adam(), model, ORIGINAL)
    with pytest.raises(ValueError, match='only format="google" holds an optimizer'):
        kbert.save_pretrained(model, tmp_path / "hf", format="huggingface", optimizer=model.optimizer)
    with pytest.raises(ValueError, match="was not built"):
        kbert.save_pretrained(model, tmp_path / "no", format="google", optimizer=kbert.AdamW())


# Where it may lie.


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


def test_the_report_names_every_variable(capsys):
    model = kbert.load_pretrained(ORIGINAL, task="classification", labels=["a", "b"])
    printed = capsys.readouterr().out
    assert "encoder_block_*/attention/query/kernel" in printed and "(2 layers)" in printed
    assert "bert/encoder/layer_*/attention/self/query/kernel  loaded" in printed
    assert "classifier_head: newly initialised (2 variables not in" in printed
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


def edit(path, **changes):
    content = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in {**content, **changes}.items() if v is not None}))


def damage(kind, path):
    data, config = path / "bert_model.ckpt.data-00000-of-00001", path / "bert_config.json"
    if kind == "truncated data":
        data.write_bytes(data.read_bytes()[:-4000])
    elif kind == "truncated index":
        (path / "bert_model.ckpt.index").write_bytes((path / "bert_model.ckpt.index").read_bytes()[:-100])
    elif kind == "no data":
        data.unlink()
    elif kind == "no config":
        config.unlink()
    elif kind == "broken config":
        config.write_text(config.read_text()[:-9])
    elif kind == "no sizes in config":
        edit(config, hidden_size=None)
    elif kind == "impossible config":
        edit(config, num_attention_heads=5)
    elif kind == "other shape":
        edit(config, intermediate_size=21)
    elif kind == "a layer more":
        edit(config, num_hidden_layers=3)
    elif kind == "unknown activation":
        edit(config, hidden_act="swish")
    elif kind == "albert":
        edit(config, num_hidden_groups=1)
    elif kind == "vocabulary too short":
        (path / "vocab.txt").write_text("\n".join(VOCABULARY[:-2]) + "\n")
    elif kind == "vocabulary too long":
        (path / "vocab.txt").write_text("\n".join([*VOCABULARY, "more"]) + "\n")
    elif kind == "another model":
        rewrite(path, lambda values: [values.__setitem__("m/" + name, values.pop(name)) for name in list(values)])
    elif kind == "missing variable":
        rewrite(path, lambda values: values.pop("bert/encoder/layer_1/output/dense/kernel"))


@pytest.mark.parametrize(
    "kind,error,message",
    [
        ("truncated data", ValueError, r"truncated: the tensors named in the index take \d+ bytes. Received: \d+"),
        ("truncated index", ValueError, "index cannot be read"),
        ("no data", FileNotFoundError, "not the weights beside it"),
        ("no config", FileNotFoundError, "Expected bert_config.json"),
        ("broken config", ValueError, "bert_config.json is damaged"),
        ("no sizes in config", ValueError, "does not say hidden_size"),
        ("impossible config", ValueError, "num_heads"),
        ("other shape", ValueError, r"shapes that do not fit.*expected \(12, 21\). Received: \(12, 20\)"),
        ("a layer more", ValueError, "lacks 16 variables of the encoder: encoder_block_2"),
        ("unknown activation", ValueError, "hidden_act='swish'"),
        ("albert", ValueError, "an ALBERT"),
        ("vocabulary too short", ValueError, r"\(29\). Received: 27 tokens"),
        ("vocabulary too long", ValueError, r"\(29\). Received: 30 tokens"),
        ("another model", ValueError, "holds no BERT in Google's names"),
        (
            "missing variable",
            ValueError,
            "lacks 1 variables of the encoder: encoder_block_1/feed_forward/output/kernel",
        ),
    ],
)
def test_damage_is_named_before_anything_is_built(kind, error, message, tmp_path, monkeypatch):
    shutil.copytree(ORIGINAL, tmp_path / "it")
    damage(kind, tmp_path / "it")
    monkeypatch.setattr(kbert.BertEncoder, "__init__", None)  # building would fail otherwise
    with pytest.raises(error, match=message):
        load(tmp_path / "it")


def test_values_that_are_no_numbers(tmp_path):
    shutil.copytree(ORIGINAL, tmp_path / "it")
    rewrite(tmp_path / "it", lambda values: values["bert/pooler/dense/bias"].fill(np.nan))
    with pytest.raises(ValueError, match="bert/pooler/dense/bias.*no finite numbers"):
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
    assert loaded.settings.labels is None and loaded.tokenizer.vocabulary == TINY_VOCABULARY
