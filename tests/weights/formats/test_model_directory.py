"""Model directories: round trips, other tasks, overrides, wrong arguments, and what is written."""

import dataclasses
import functools
import json

import numpy as np
import pytest
import tensorflow as tf
from helpers.hf_directory import edit
from helpers.model_settings import settings_of
from helpers.slow_but import slow_but
from helpers.stored_models import MODELS, make_model, weights
from helpers.tiny_bert import TEXTS, VOCABULARY, randomise, tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs, wrong_values

import kbert
from kbert.pipelines.registry import task_class, task_names

FILES = ["README.md", "config.json", "kbert.json", "model.safetensors"]
FILES += ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]
EMBEDDING_FILES = ["1_Pooling", "config_sentence_transformers.json", "modules.json", "sentence_bert_config.json"]


def same_weights(one, other, only=None):
    one, other = weights(one), weights(other)
    for path, value in one.items():
        if only is None or path.startswith(only):
            np.testing.assert_array_equal(value, other[path], err_msg=path)


@pytest.mark.parametrize("name", slow_but(("encoder", "pretraining, untied", "classification"), MODELS))
def test_every_model_comes_back(name, tmp_path):
    model, tokenizer = make_model(name, activation="gelu_erf", hidden_dropout=0.3), tiny_tokenizer(max_word_length=77)
    settings = settings_of(model.task, 17, pair=True, null_threshold=-1.5)
    kbert.save_pretrained(model, tmp_path / "model", tokenizer=tokenizer, settings=settings, made_by={"seed": 3})
    embeds = name == "similarity" or model.task == "encoder"
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == sorted(FILES + (EMBEDDING_FILES if embeds else []))
    card = (tmp_path / "model/README.md").read_text().splitlines()
    assert "Sequence length: 17 tokens." in card and len(card) <= 20
    loaded = kbert.load_pretrained(tmp_path / "model")
    assert (type(loaded), loaded.task, loaded.config) == (type(model), model.task, model.config)
    ours, theirs = loaded.get_config(), model.get_config()
    assert {k: v for k, v in ours.items() if k not in ("name", "encoder")} == {
        k: v for k, v in theirs.items() if k not in ("name", "encoder")
    }
    same_weights(loaded, model)
    assert loaded.pretrained.settings == dataclasses.replace(settings, tokenizer=tokenizer.settings())
    assert loaded.pretrained.tokenizer.settings() == tokenizer.settings()
    assert loaded.pretrained.tokenizer.vocabulary == VOCABULARY
    report = loaded.pretrained.report
    assert not report.newly_initialised and not report.unused and len(report.rows) == len(model.weights)
    content = json.loads((tmp_path / "model/kbert.json").read_text())
    assert content["made_by"] == {"seed": 3} and content["parameters"] == model.count_params()
    assert set(FILES) - {"kbert.json"} <= set(content["sha256"])
    assert {"kbert", "keras", "tensorflow", "python"} <= set(content["versions"])


def test_an_encoder_with_other_outputs_comes_back(tmp_path):
    model = make_model("encoder").with_outputs("sequence_output", "attention_probs")
    kbert.save_pretrained(model, tmp_path / "model", tokenizer=tiny_tokenizer())
    loaded = kbert.load_pretrained(tmp_path / "model")
    assert loaded.output_keys == model.output_keys
    same_weights(loaded, model)


def test_a_fill_mask_pipeline_keeps_the_plain_tokenizer(tmp_path):
    pipeline = kbert.build_pipeline(kbert.BertPretrainer(tiny_config()), tiny_tokenizer(), max_masks=3, top_k=2)
    kbert.save_pretrained(pipeline, tmp_path / "model")
    loaded = kbert.load_pretrained(tmp_path / "model")
    assert loaded.pretrained.settings.tokenizer["special_tokens_in_text"] is False
    assert kbert.build_pipeline(loaded).settings() == pipeline.settings()


# Other tasks.


@pytest.mark.usefixtures("eagerly")
def test_pretraining_to_classification(pretrained, caplog):
    path, original = pretrained
    caplog.set_level("INFO", logger="kbert")
    model = kbert.load_pretrained(path, task="classification", labels=["a", "b", "c"], hidden_dropout=0.25)
    logged = [record for record in caplog.records if record.name == "kbert"]
    assert [record.getMessage() for record in logged] == [
        f"{path}: 39 loaded, 2 newly initialised, 7 unused",
        f"classifier_head: newly initialised (2 variables not in {path})",
        "cls: unused (7 variables)",
    ]
    assert [record.levelname for record in logged] == ["INFO", "WARNING", "INFO"]
    assert model.num_labels == 3 and model.pretrained.settings.task.labels == ("a", "b", "c")
    assert (model.config.hidden_dropout, model.dropout, model.config.attention_dropout) == (0.25, 0.25, 0.1)
    same_weights(original.encoder, model.encoder)
    report = model.pretrained.report
    assert [row.variable for row in report.newly_initialised] == [
        "classifier_head/dense/kernel",
        "classifier_head/dense/bias",
    ]
    assert {row.source.rpartition(".")[0] for row in report.unused} == {
        "cls.predictions",
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.seq_relationship",
    }
    assert len(report.rows) == len(model.weights) + len(report.unused)
    assert "classifier_head/dense/bias" in str(report)
    kbert.build_pipeline(model).predict(TEXTS, verbose=0)


@pytest.mark.parametrize("task", slow_but(("masked_lm", "tagging"), task_names()))
def test_pretraining_to_every_task(pretrained, task):
    path, original = pretrained
    labels = {"labels": ["x", "y"]} if task in ("classification", "tagging") else {}
    model = kbert.load_pretrained(path, task=task, **labels)
    assert model.task == task
    same_weights(model.encoder, original.encoder)
    for head in ("masked_lm_head", "next_sentence_head"):
        same_weights(model, original, only=head) if any(p.startswith(head) for p in weights(model)) else None
    new = {row.variable.split("/")[0] for row in model.pretrained.report.newly_initialised}
    stored = {"masked_lm_head", "next_sentence_head"}
    assert new == set(task_class(task).heads) - stored


def test_a_tagger_without_windows_to_tasks_with_windows(tmp_path):
    """Its `doc_stride` is None, which is none of theirs."""
    tagger = kbert.BertTagger(tiny_config(), num_labels=3)
    kbert.save_pretrained(tagger, tmp_path / "model", tokenizer=tiny_tokenizer())
    for task, labels in (("span", {}), ("regression", {}), ("classification", {"labels": ["x", "y"]})):
        model = kbert.load_pretrained(tmp_path / "model", task=task, **labels)
        assert model.pretrained.settings.task.doc_stride == 128
        same_weights(tagger.encoder, model.encoder)


def test_a_tagger_needs_labels(pretrained):
    message = "^load_pretrained: a tagging model needs `labels`, or their number as `num_labels`. .*has none"
    for given in ({}, {"labels": None}):
        with pytest.raises(ValueError, match=message):
            kbert.load_pretrained(pretrained[0], task="tagging", **given)


def test_a_missing_pooler_is_new_and_named(tmp_path, caplog):
    caplog.set_level("INFO", logger="kbert")
    encoder = kbert.BertEncoder(tiny_config(), pooler=False)
    kbert.save_pretrained(randomise(encoder), tmp_path / "model", tokenizer=tiny_tokenizer())
    model = kbert.load_pretrained(tmp_path / "model", task="regression")
    totals, *lines = [record.getMessage() for record in caplog.records if record.name == "kbert"]
    assert totals.endswith("37 loaded, 4 newly initialised, 0 unused")
    assert [line.split(":")[0] for line in lines] == ["pooler", "regressor_head"]
    same_weights(encoder, model)


def test_a_pooler_can_be_left_out(tmp_path):
    """Its output with it, where the outputs are those that are stored."""
    for outputs in (["pooled_output", "hidden_states"], ["pooled_output"]):
        encoder = kbert.BertEncoder(tiny_config(), outputs=outputs)
        kbert.save_pretrained(encoder, tmp_path / "model", tokenizer=tiny_tokenizer(), overwrite=True)
        without = kbert.load_pretrained(tmp_path / "model", pooler=False)
        assert list(without.output) == (outputs[1:] or ["sequence_output"]) and without.pooler is None
    with pytest.raises(ValueError, match="`pooled_output` needs the pooler"):
        kbert.load_pretrained(tmp_path / "model", pooler=False, outputs=["pooled_output"])


def test_other_labels_are_a_new_head_and_the_same_keep_their_order(tmp_path, caplog):
    model = randomise(kbert.BertClassifier(tiny_config()))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["pos", "neg"])
    kbert.save_pretrained(pipeline, tmp_path / "model")
    same_weights(kbert.load_pretrained(tmp_path / "model", labels=("pos", "neg")), model)
    with pytest.raises(ValueError, match=r"order of the stored head, \['pos', 'neg'\].*Received: \['neg', 'pos'\]"):
        kbert.load_pretrained(tmp_path / "model", labels=["neg", "pos"])
    other = kbert.load_pretrained(tmp_path / "model", labels=["bad", "good"])
    report, head = other.pretrained.report, ["classifier_head/dense/kernel", "classifier_head/dense/bias"]
    assert [row.variable for row in report.newly_initialised] == head
    assert {row.source for row in report.unused} == {"classifier.weight", "classifier.bias"}
    assert "classifier_head: newly initialised (2 variables" in caplog.text
    assert len(report.rows) == len(model.weights) + 2
    same_weights(other.encoder, model.encoder)
    kernels = [next(v.numpy() for v in one.weights if v.path == head[0]) for one in (model, other)]
    assert np.std(kernels[1]) < 0.1 < np.std(kernels[0])
    assert other.pretrained.settings.task.labels == ("bad", "good")


@pytest.mark.parametrize("labels", [None, ["0", "1"], ["LABEL_0", "LABEL_1"]])
def test_default_names_take_the_labels_given(labels, tmp_path):
    model = randomise(kbert.BertClassifier(tiny_config()))
    settings = settings_of("classification", 9, labels=labels)
    kbert.save_pretrained(model, tmp_path / "model", tokenizer=tiny_tokenizer(), settings=settings)
    named = kbert.load_pretrained(tmp_path / "model", labels=["neg", "pos"])
    assert named.pretrained.settings.task.labels == ("neg", "pos") and not named.pretrained.report.newly_initialised
    same_weights(named, model)


def test_a_quantised_head_has_no_other_labels(tmp_path):
    model = kbert.BertClassifier(tiny_config())
    model.quantize("int8")
    kbert.save_pretrained(kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b"]), tmp_path / "model")
    assert kbert.load_pretrained(tmp_path / "model", labels=["a", "b"]).pretrained.settings.task.labels == ("a", "b")
    with pytest.raises(ValueError, match="is quantised: it can only be loaded as it is"):
        kbert.load_pretrained(tmp_path / "model", labels=["c", "d"])


def test_thresholds_go_with_their_labels(tmp_path):
    model = kbert.BertClassifier(tiny_config(num_layers=1), 2, multi_label=True)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b"], thresholds=[0.3, 0.4])
    kbert.save_pretrained(pipeline, tmp_path / "model")

    def thresholds(**overrides):
        loaded = kbert.load_pretrained(tmp_path / "model", **overrides)
        kbert.build_pipeline(loaded)
        return loaded.pretrained.settings.task.thresholds

    assert thresholds() == thresholds(labels=["a", "b"]) == (0.3, 0.4)
    for overrides in ({"labels": ["c", "d"]}, {"labels": list("abc")}, {"num_labels": 3}, {"multi_label": False}):
        assert thresholds(**overrides) is None
    assert thresholds(labels=["c", "d"], thresholds=[0.5, 0.6]) == (0.5, 0.6)


def test_overrides(pretrained):
    path, original = pretrained
    encoder = kbert.load_pretrained(
        path, task="encoder", outputs=("hidden_states",), attention_dropout=0.0, causal=True
    )
    assert list(encoder.output) == ["hidden_states"] and encoder.config.causal and not encoder.config.attention_dropout
    model = kbert.load_pretrained(path, sequence_length=9, max_word_length=7, dtype="mixed_bfloat16", top_k=3)
    assert model.dtype_policy.name == "mixed_bfloat16" and model.pretrained.settings.task.top_k == 3
    assert model.pretrained.tokenizer.max_word_length == 7 and model.pretrained.settings.sequence_length == 9
    same_weights(model, original)
    with pytest.warns(UserWarning, match="uncased"):
        kbert.load_pretrained(path, lowercase=False)
    packed = kbert.load_pretrained(path, num_parts=3)
    assert packed.encoder.num_parts == 3 and not packed.pretrained.report.newly_initialised
    same_weights(packed, original)


def test_a_recipes_output_may_be_named(pretrained):
    path, original = pretrained
    same_weights(kbert.load_pretrained(str(path.parent)), original)


def test_loading_under_a_strategy(pretrained):
    path, original = pretrained
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = kbert.load_pretrained(path, task="classification")
    same_weights(model.encoder, original.encoder)


def test_a_config_may_be_edited(pretrained):
    path, _ = pretrained
    own = json.loads((path / "config.json").read_text())["kbert"]
    edit(path / "config.json", kbert=own | {"task": own["task"] | {"top_k": 3}})
    assert kbert.load_pretrained(path).pretrained.settings.task.top_k == 3


def test_wrong_arguments(pretrained, tmp_path):
    wrong_values(
        functools.partial(kbert.load_pretrained, pretrained[0]),
        ({"task": "parsing"}, "must be one of.*Received: 'parsing'"),
        ({"hidden_dim": 24}, "hidden_dim.*cannot be overridden"),
        ({"num_labels": 2}, r"unknown arguments \['num_labels'\]"),
        ({"task": "classification", "num_labels": 3, "labels": ["a", "b"]}, "expected 3 labels, as many as"),
        ({"task": "classification", "labels": ["a", "a"]}, "`labels` must be different strings"),
        ({"task": "classification", "labels": "ab"}, "`labels` must be a list, each item a string"),
    )
    with pytest.raises(FileNotFoundError, match="does not exist"):
        kbert.load_pretrained(tmp_path / "nowhere")


CASED = [token.capitalize() if token.isalpha() else token for token in VOCABULARY]


@pytest.mark.parametrize(
    "vocabulary,lowercase,message", [(CASED, True, "cased one"), (VOCABULARY, False, "uncased one")]
)
def test_the_classic_mistake_is_named(tmp_path, vocabulary, lowercase, message):
    tokenizer = kbert.BertTokenizer(vocabulary, lowercase=lowercase)
    with pytest.warns(UserWarning, match=message):
        kbert.save_pretrained(kbert.BertEncoder(tiny_config()), tmp_path / "model", tokenizer=tokenizer)
    with pytest.warns(UserWarning, match=message):
        kbert.load_pretrained(tmp_path / "model")


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("vocabulary,lowercase", [(CASED, False), (VOCABULARY, True)])
def test_no_warning_without_a_mistake(tmp_path, vocabulary, lowercase):
    tokenizer = kbert.BertTokenizer(vocabulary, lowercase=lowercase)
    kbert.save_pretrained(kbert.BertEncoder(tiny_config()), tmp_path / "model", tokenizer=tokenizer)


# Writing.


def snapshot(path):
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_what_is_there_is_respected(pretrained, tmp_path):
    path, _ = pretrained
    model = kbert.load_pretrained(path)
    (tmp_path / "theirs").mkdir()  # another program's files, of names that a kbert directory has too
    for name in ("config.json", "vocab.txt"):
        (tmp_path / "theirs" / name).write_text("{}")
    before = snapshot(tmp_path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        kbert.save_pretrained(model, path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("x")
    errors = {tmp_path / "notes": FileExistsError, path.parent: FileExistsError, tmp_path / "theirs": FileExistsError}
    for target, error in (errors | {tmp_path / "file": NotADirectoryError}).items():
        with pytest.raises(error):
            kbert.save_pretrained(model, target, overwrite=True)
    assert {name: content for name, content in snapshot(tmp_path).items() if name in before} == before


def test_overwriting_replaces_everything(pretrained):
    path, _ = pretrained
    other = randomise(kbert.BertRegressor(tiny_config(num_layers=1)), seed=5)
    kbert.save_pretrained(other, path, tokenizer=tiny_tokenizer(), overwrite=True)
    same_weights(kbert.load_pretrained(path), other)
    assert [entry.name for entry in path.parent.iterdir()] == ["model"]  # no leftovers


def test_a_failed_save_leaves_nothing(pretrained, monkeypatch):
    path, _ = pretrained
    model = kbert.load_pretrained(path)
    before = snapshot(path.parent)

    def fail(file, *args, **kwargs):
        with open(file, "wb") as stream:
            stream.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr("kbert.weights.formats.huggingface.write_safetensors", fail)
    for target, overwrite in [(path, True), (path.parent / "new", False)]:
        with pytest.raises(OSError, match="no space left"):
            kbert.save_pretrained(model, target, overwrite=overwrite)
    assert snapshot(path.parent) == before
    assert [entry.name for entry in path.parent.iterdir()] == ["model"]


def test_saving_needs_what_belongs_together(tmp_path):
    model = kbert.BertClassifier(tiny_config(), num_labels=2)
    wrong_inputs(
        lambda arguments: kbert.save_pretrained(model, tmp_path / "model", **arguments),
        ({}, "pass `tokenizer`"),
        ({"tokenizer": tiny_tokenizer(), "settings": {"seed": 1}}, "made_by"),
        (
            {"tokenizer": tiny_tokenizer(), "settings": settings_of("classification", 9, labels=["a"])},
            "expected 2 labels",
        ),
        (
            {"tokenizer": tiny_tokenizer(), "settings": settings_of("classification", 128)},
            "position table, 19. Received: 128",
        ),
        ({"tokenizer": kbert.BertTokenizer(VOCABULARY[:-1])}, "Received: 24 tokens"),
        ({"tokenizer": tiny_tokenizer(), "format": "onnx"}, "`format` must be one of"),
    )
    with pytest.raises(ValueError, match="give neither"):
        kbert.save_pretrained(kbert.build_pipeline(model, tiny_tokenizer()), tmp_path / "m", tokenizer=tiny_tokenizer())
    assert not list(tmp_path.iterdir())
