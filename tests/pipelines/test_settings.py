"""ModelSettings: round trip and validation."""

import json

import numpy as np
import pytest
from helpers.tiny_bert import tiny_config, tiny_tokenizer
from helpers.tiny_directory import write_tiny_directory

import kbert
from kbert.pipelines.settings import ModelSettings


def test_round_trip():
    settings = ModelSettings(
        task="span",
        labels=("a", "b"),
        sequence_length=64,
        pair=True,
        max_masks=2,
        top_k=3,
        null_threshold=-2.5,
        doc_stride=9,
        max_query_length=5,
        window_pooling="max",
        tokenizer={"lowercase": False},
    )
    fields = settings.to_dict()
    assert fields["preprocessing"] == {
        "sequence_length": 64,
        "pair": True,
        "max_masks": 2,
        "doc_stride": 9,
        "max_query_length": 5,
        "window_pooling": "max",
        "tokenizer": {"lowercase": False},
        "masking": {},
    }
    assert ModelSettings.from_dict(fields) == settings
    assert ModelSettings.from_dict({}) == ModelSettings()


@pytest.mark.parametrize(
    "fields,message",
    [
        ({"lable": 1}, r"unknown fields \['lable'\]"),
        ({"preprocessing": {"length": 1}}, r"unknown fields \['preprocessing.length'\]"),
        ({"sequence_length": 1}, "unknown fields"),  # belongs into preprocessing
        ({"labels": ["a", "a"]}, "must differ"),
        ({"labels": [1, 2]}, "list of strings"),
        ({"labels": []}, r"list of strings. Received: \[\]"),
        ({"labels": {"a", "b"}}, "list of strings"),
        ({"labels": np.array("a")}, "list of strings"),
        ({"thresholds": "0.5"}, r"`thresholds` must be numbers in \(0, 1\). Received: '0.5'"),
        ({"thresholds": [0.5, True]}, "`thresholds` must be numbers"),
        ({"thresholds": [0]}, "`thresholds` must be numbers"),
        ({"thresholds": ["a"]}, "ModelSettings: `thresholds` must be numbers"),
        ({"pooling": "medoid"}, "`pooling` must be one of .*Received: 'medoid'"),
        ({"null_threshold": "1"}, "`null_threshold` must be a finite number. Received: '1'"),
        ({"preprocessing": {"sequence_length": 0}}, "sequence_length.*Received: 0"),
        ({"n_best": 0}, "n_best.*Received: 0"),
        ({"max_answer_length": True}, "max_answer_length.*Received: True"),
        ({"null_threshold": float("nan")}, "null_threshold.*Received: nan"),
        ({"preprocessing": {"doc_stride": 1.5}}, "doc_stride.*Received: 1.5"),
        ({"preprocessing": {"window_pooling": "sum"}}, r"one of \(None, 'max', 'mean'\). Received: 'sum'"),
        ({"preprocessing": {"pair": 1}}, "pair.*Received: 1"),
        ({"preprocessing": {"pair": "no"}}, "`pair` must be True or False. Received: 'no'"),
        ({"preprocessing": {"tokenizer": "bert"}}, "tokenizer.*Received: 'bert'"),
    ],
)
def test_wrong_fields(fields, message):
    with pytest.raises(ValueError, match=message):
        ModelSettings.from_dict(fields)


def test_arrays_and_numpy_values_are_stored_as_json_has_them():
    given = {"thresholds": np.array([0.25, 0.5], "float32"), "null_threshold": np.float32(2), "pair": np.True_}
    settings = ModelSettings(labels=np.array(["a", "b"]), **given)
    assert json.loads(json.dumps(settings.to_dict())) == settings.to_dict()
    assert settings == ModelSettings(labels=["a", "b"], thresholds=[0.25, 0.5], null_threshold=2.0, pair=True)
    assert ModelSettings(thresholds=(0.25,)).thresholds == [0.25]


def test_options_of_another_task_are_refused(tmp_path):
    """They used to be stored without a word and never read."""
    write_tiny_directory(tmp_path / "model", "classification", num_labels=2)
    with pytest.raises(ValueError, match=r"unknown arguments \['top_k'\]. Known: .*window_pooling"):
        kbert.load_pretrained(tmp_path / "model", top_k=3)


@pytest.mark.parametrize(
    "thresholds, model, message",
    [
        ([0.1, 0.2, 0.3], {"multi_label": True}, r"expected 2 thresholds, as many as .*Received: \[0.1, 0.2, 0.3\]"),
        ([0.1, 0.2], {}, "`thresholds` are a multi-label classifier's"),
    ],
)
def test_thresholds_that_the_model_has_no_use_for(thresholds, model, message, tmp_path):
    write_tiny_directory(tmp_path / "model", "classification", num_labels=2, **model)
    with pytest.raises(ValueError, match=f"^load_pretrained: {message}"):
        kbert.load_pretrained(tmp_path / "model", thresholds=thresholds)
    settings = ModelSettings(sequence_length=9, thresholds=thresholds)
    with pytest.raises(ValueError, match=f"^save_pretrained: {message}"):
        kbert.save_pretrained(
            kbert.BertClassifier(tiny_config(), **model), tmp_path / "it", tokenizer=tiny_tokenizer(), settings=settings
        )


def test_thresholds_give_the_number_of_labels(tmp_path):
    write_tiny_directory(tmp_path / "model")
    options = {"multi_label": True, "thresholds": [0.1, 0.2, 0.3]}
    assert kbert.load_pretrained(tmp_path / "model", task="classification", **options).num_labels == 3


@pytest.mark.parametrize("option", [{"n_best": 100}, {"max_query_length": 500}, {"doc_stride": 600}])
def test_counts_beyond_a_short_position_table(option, tmp_path):
    """They mean what the table allows, but what is saved can be loaded."""
    pipeline = kbert.build_pipeline(kbert.BertSpanExtractor(tiny_config()), tiny_tokenizer(), **option)
    kbert.save_pretrained(pipeline, tmp_path / "it")
    ((name, value),) = option.items()
    assert getattr(kbert.load_pretrained(tmp_path / "it").pretrained.settings, name) == value


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    pipeline = kbert.build_pipeline(kbert.BertPretrainer(tiny_config()), tiny_tokenizer(), max_masks=500)
    with pytest.raises(ValueError, match="save_pretrained: `max_masks` must be at most 19. Received: 500"):
        kbert.save_pretrained(pipeline, tmp_path / "it")
    assert not (tmp_path / "it").exists()


@pytest.mark.parametrize("task", ["span", "regression", "multiple_choice", "encoder"])
def test_labels_of_a_model_without_labels(task, tmp_path):
    write_tiny_directory(tmp_path / "it")
    with pytest.raises(ValueError, match=r"unknown arguments \['labels'\]"):
        kbert.load_pretrained(tmp_path / "it", task=task, labels=["a", "b"])
