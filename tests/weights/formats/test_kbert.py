"""kbert directories: round trips, other tasks, overrides, wrong arguments, and what is written."""

import dataclasses
import functools
import json

import numpy as np
import pytest
import tensorflow as tf
from helpers.hf_directory import edit
from helpers.model_settings import settings_of
from helpers.slow_but import slow_but
from helpers.stored_models import make_model, weights
from helpers.tiny_bert import VOCABULARY, randomise, tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs, wrong_values

import kbert
from kbert.pipelines.registry import task_class, task_names
from kbert.weights.load import head_labels
from kbert.weights.open_checkpoint import open_checkpoint

FILES = ["config.json", "manifest.json", "model.weights.h5", "vocab.txt"]


def same_weights(one, other, only=""):
    one, other = weights(one), weights(other)
    for path, value in one.items():
        if path.startswith(only):
            np.testing.assert_array_equal(value, other[path], err_msg=path)


def test_what_a_directory_holds(tmp_path):
    model = make_model("span", num_layers=1)
    tokenizer = tiny_tokenizer(max_word_length=77)
    settings = settings_of("span", 17, null_threshold=-1.5)
    kbert.save_pretrained(model, tmp_path / "model", tokenizer=tokenizer, settings=settings, made_by={"seed": 3})
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == FILES
    loaded = kbert.load_pretrained(tmp_path / "model")
    ours, theirs = loaded.get_config(), model.get_config()
    assert {**ours, "name": "", "encoder": ""} == {**theirs, "name": "", "encoder": ""}
    same_weights(loaded, model)
    assert loaded.pretrained.settings == dataclasses.replace(settings, tokenizer=tokenizer.settings())
    assert loaded.pretrained.tokenizer.settings() == tokenizer.settings()
    manifest = json.loads((tmp_path / "model/manifest.json").read_text())
    assert manifest["made_by"] == {"seed": 3} and manifest["parameters"] == model.count_params()
    assert set(manifest["files"]) == set(FILES) - {"manifest.json"}
    assert {"kbert", "keras", "tensorflow", "python"} <= set(manifest["versions"])


def test_a_fill_mask_pipeline_keeps_the_plain_tokenizer(tmp_path):
    pipeline = kbert.build_pipeline(make_model("pretraining"), tiny_tokenizer(), max_masks=3, top_k=2)
    kbert.save_pretrained(pipeline, tmp_path / "model")
    loaded = kbert.load_pretrained(tmp_path / "model")
    assert loaded.pretrained.settings.tokenizer["special_tokens_in_text"] is False
    assert kbert.build_pipeline(loaded).settings() == pipeline.settings()


@pytest.fixture(scope="module")
def multi_label(tmp_path_factory):
    """A directory of a multi-label classifier."""
    path = tmp_path_factory.mktemp("multi-label") / "model"
    model = kbert.BertClassifier(tiny_config(num_layers=1), 2, multi_label=True)
    kbert.save_pretrained(kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b"], thresholds=[0.3, 0.4]), path)
    return path


# Other tasks.


def test_pretraining_to_classification(pretrained, caplog):
    path, original = pretrained
    caplog.set_level("INFO", logger="kbert")
    model = kbert.load_pretrained(path, task="classification", labels=["a", "b", "c"], hidden_dropout=0.25)
    logged = [record for record in caplog.records if record.name == "kbert"]
    assert [record.getMessage() for record in logged] == [
        f"{path}: 39 loaded, 2 newly initialised, 7 unused",
        f"classifier_head: newly initialised (2 variables not in {path})",
        "masked_lm_head: unused (5 variables)",
        "next_sentence_head: unused (2 variables)",
    ]
    assert [record.levelname for record in logged] == ["INFO", "WARNING", "INFO", "INFO"]
    assert model.num_labels == 3 and model.pretrained.settings.task.labels == ("a", "b", "c")
    assert (model.config.hidden_dropout, model.dropout, model.config.attention_dropout) == (0.25, 0.25, 0.1)
    same_weights(original.encoder, model.encoder)
    report = model.pretrained.report
    new = ["classifier_head/dense/kernel", "classifier_head/dense/bias"]
    assert [row.variable for row in report.newly_initialised] == new
    assert {row.source.split("/")[0] for row in report.unused} == {"masked_lm_head", "next_sentence_head"}
    assert len(report.rows) == len(model.weights) + len(report.unused)
    assert "classifier_head/dense/bias" in str(report)


@pytest.mark.parametrize("task", slow_but(("masked_lm",), task_names()))
def test_pretraining_to_every_task(pretrained, task):
    path, original = pretrained
    labels = {"labels": ["x", "y"]} if task in ("classification", "tagging") else {}
    model = kbert.load_pretrained(path, task=task, **labels)
    assert model.task == task
    same_weights(model.encoder, original.encoder)
    for head in ("masked_lm_head", "next_sentence_head"):
        same_weights(model, original, only=head)
    new = {row.variable.split("/")[0] for row in model.pretrained.report.newly_initialised}
    assert new == set(task_class(task).heads) - {"masked_lm_head", "next_sentence_head"}


def test_a_missing_pooler_is_new_and_named(tmp_path, caplog):
    caplog.set_level("INFO", logger="kbert")
    encoder = make_model("encoder without pooler", num_layers=1)
    kbert.save_pretrained(encoder, tmp_path / "model", tokenizer=tiny_tokenizer())
    model = kbert.load_pretrained(tmp_path / "model", task="regression")
    totals, *lines = [record.getMessage() for record in caplog.records if record.name == "kbert"]
    assert totals.endswith("21 loaded, 4 newly initialised, 0 unused")
    assert [line.split(":")[0] for line in lines] == ["pooler", "regressor_head"]
    same_weights(encoder, model)


def test_a_pooler_can_be_left_out(tmp_path):
    """Its output with it, where the outputs are those that are stored."""
    encoder = kbert.BertEncoder(tiny_config(num_layers=1), outputs=["pooled_output", "hidden_states"])
    kbert.save_pretrained(encoder, tmp_path / "model", tokenizer=tiny_tokenizer())
    without = kbert.load_pretrained(tmp_path / "model", pooler=False)
    assert list(without.output) == ["hidden_states"] and without.pooler is None
    with pytest.raises(ValueError, match="`pooled_output` needs the pooler"):
        kbert.load_pretrained(tmp_path / "model", pooler=False, outputs=["pooled_output"])


def test_other_labels_are_a_new_head_and_the_same_keep_their_order(tmp_path, caplog):
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1)))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["pos", "neg"])
    kbert.save_pretrained(pipeline, tmp_path / "model")
    same_weights(kbert.load_pretrained(tmp_path / "model", labels=("pos", "neg")), model)
    with pytest.raises(ValueError, match=r"order of the stored head, \['pos', 'neg'\].*Received: \['neg', 'pos'\]"):
        kbert.load_pretrained(tmp_path / "model", labels=["neg", "pos"])
    other = kbert.load_pretrained(tmp_path / "model", labels=["bad", "good"])
    report, head = other.pretrained.report, ["classifier_head/dense/kernel", "classifier_head/dense/bias"]
    assert [row.variable for row in report.newly_initialised] == [row.source for row in report.unused] == head
    assert "classifier_head: newly initialised (2 variables" in caplog.text
    assert len(report.rows) == len(model.weights) + 2
    same_weights(other.encoder, model.encoder)
    kernels = [next(v.numpy() for v in one.weights if v.path == head[0]) for one in (model, other)]
    assert np.std(kernels[1]) < 0.1 < np.std(kernels[0])
    assert other.pretrained.settings.task.labels == ("bad", "good")


@pytest.mark.parametrize(
    "stored,wanted,kept",
    [
        (["a", "b"], ["b", "a"], ["a", "b"]),
        (["a", "b"], ["b", "c"], None),
        (None, ["a", "b"], ["a", "b"]),
        (["0", "1"], ["a", "b"], ["a", "b"]),
        (["LABEL_0", "LABEL_1"], ["a", "b"], ["a", "b"]),
        (["1", "0"], ["a", "b"], None),
    ],
)
def test_which_head_serves_for_labels(stored, wanted, kept):
    assert head_labels(stored, wanted) == kept


def test_a_quantised_head_has_no_other_labels(tmp_path):
    model = kbert.BertClassifier(tiny_config(num_layers=1))
    model.quantize("int8")
    kbert.save_pretrained(kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b"]), tmp_path / "model")
    assert kbert.load_pretrained(tmp_path / "model", labels=["a", "b"]).pretrained.settings.task.labels == ("a", "b")
    with pytest.raises(ValueError, match="is quantised: it can only be loaded as it is"):
        kbert.load_pretrained(tmp_path / "model", labels=["c", "d"])


@pytest.mark.parametrize(
    "overrides,thresholds",
    [
        ({"labels": ["a", "b"]}, (0.3, 0.4)),
        ({"labels": ["c", "d"]}, None),
        ({"num_labels": 3}, None),
        ({"multi_label": False}, None),
        ({"labels": ["c", "d"], "thresholds": [0.5, 0.6]}, (0.5, 0.6)),
    ],
)
def test_thresholds_go_with_their_labels(multi_label, overrides, thresholds):
    loaded = kbert.load_pretrained(multi_label, **overrides)
    assert loaded.pretrained.settings.task.thresholds == thresholds


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


def test_loading_under_a_strategy(pretrained):
    path, original = pretrained
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = kbert.load_pretrained(path, task="classification")
    same_weights(model.encoder, original.encoder)


def test_a_config_may_be_edited(pretrained):
    path, _ = pretrained
    task = json.loads((path / "config.json").read_text())["task"]
    edit(path / "config.json", task=task | {"top_k": 3})
    assert open_checkpoint(path).settings.task.top_k == 3


def test_wrong_arguments(pretrained, tmp_path):
    wrong_values(
        functools.partial(kbert.load_pretrained, pretrained[0]),
        ({"task": "parsing"}, "must be one of.*Received: 'parsing'"),
        ({"hidden_dim": 24}, "hidden_dim.*cannot be overridden"),
        ({"num_labels": 2}, r"unknown arguments \['num_labels'\]"),
        ({"task": "classification", "num_labels": 3, "labels": ["a", "b"]}, "expected 3 labels, as many as"),
        ({"task": "classification", "labels": ["a", "a"]}, "must differ"),
        ({"task": "classification", "labels": "ab"}, "list of strings"),
        ({"task": "tagging"}, "^load_pretrained: a tagging model needs `labels`, or their number as `num_labels`"),
        ({"task": "tagging", "labels": None}, "needs `labels`"),
    )
    with pytest.raises(FileNotFoundError, match="does not exist"):
        kbert.load_pretrained(tmp_path / "nowhere")


CASED = [token.capitalize() if token.isalpha() else token for token in VOCABULARY]


@pytest.mark.parametrize(
    "vocabulary,lowercase,message",
    [
        (CASED, True, "cased one"),
        (VOCABULARY, False, "uncased one"),
        (CASED, False, None),
        (VOCABULARY, True, None),
    ],
)
def test_the_classic_mistake_is_named(tmp_path, vocabulary, lowercase, message, recwarn):
    model = make_model("encoder without pooler", num_layers=1)
    kbert.save_pretrained(model, tmp_path / "model", tokenizer=kbert.BertTokenizer(vocabulary, lowercase=lowercase))
    kbert.load_pretrained(tmp_path / "model")
    texts = [str(warning.message) for warning in recwarn if warning.category is UserWarning]
    assert len(texts) == (2 if message else 0) and all(message in text for text in texts)


# Writing.


def snapshot(path):
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_what_is_there_is_respected(pretrained, tmp_path):
    path, _ = pretrained
    model = make_model("encoder")
    (tmp_path / "theirs").mkdir()  # another program's files, of names that a kbert directory has too
    for name in ("config.json", "vocab.txt"):
        (tmp_path / "theirs" / name).write_text("{}")
    before = snapshot(tmp_path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        kbert.save_pretrained(model, path, tokenizer=tiny_tokenizer())
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("x")
    for target in (tmp_path / "notes", path.parent, tmp_path / "theirs"):
        with pytest.raises(FileExistsError):
            kbert.save_pretrained(model, target, tokenizer=tiny_tokenizer(), overwrite=True)
    with pytest.raises(NotADirectoryError):
        kbert.save_pretrained(model, tmp_path / "file", tokenizer=tiny_tokenizer(), overwrite=True)
    assert {name: content for name, content in snapshot(tmp_path).items() if name in before} == before


def test_overwriting_replaces_everything(pretrained):
    path, _ = pretrained
    other = make_model("regression", num_layers=1)
    kbert.save_pretrained(other, path, tokenizer=tiny_tokenizer(), overwrite=True)
    same_weights(kbert.load_pretrained(path), other)
    assert [entry.name for entry in path.parent.iterdir()] == ["model"]  # no leftovers


def test_a_failed_save_leaves_nothing(pretrained, monkeypatch):
    path, model = pretrained
    before = snapshot(path.parent)

    def fail(self, file, *args, **kwargs):
        with open(file, "wb") as stream:
            stream.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(kbert.BertPretrainer, "save_weights", fail)
    for target, overwrite in [(path, True), (path.parent / "new", False)]:
        with pytest.raises(OSError, match="no space left"):
            kbert.save_pretrained(model, target, tokenizer=tiny_tokenizer(), overwrite=overwrite)
    assert snapshot(path.parent) == before
    assert [entry.name for entry in path.parent.iterdir()] == ["model"]


def test_saving_needs_what_belongs_together(tmp_path):
    model, tokenizer = kbert.BertClassifier(tiny_config(num_layers=1), num_labels=2), tiny_tokenizer()
    pipeline = kbert.build_pipeline(model, tokenizer)
    one_label, long = settings_of("classification", 9, labels=["a"]), settings_of("classification", 128)
    wrong_inputs(
        lambda wrong: kbert.save_pretrained(wrong[0], tmp_path / "model", **wrong[1]),
        ((model, {}), "pass `tokenizer`"),
        ((model, {"tokenizer": tokenizer, "settings": {"seed": 1}}), "made_by"),
        ((model, {"tokenizer": tokenizer, "settings": one_label}), "expected 2 labels"),
        ((model, {"tokenizer": tokenizer, "settings": long}), "position table, 19. Received: 128"),
        ((model, {"tokenizer": kbert.BertTokenizer(VOCABULARY[:-1])}), "Received: 24 tokens"),
        ((model, {"tokenizer": tokenizer, "format": "onnx"}), "`format` must be one of"),
        ((pipeline, {"tokenizer": tokenizer}), "give neither"),
    )
    assert not list(tmp_path.iterdir())
