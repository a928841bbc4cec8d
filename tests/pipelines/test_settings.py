"""Task objects and what is stored of them: round trip and validation."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.model_settings import settings_of
from helpers.run_python import assert_imports_none
from helpers.tiny_bert import tiny_config, tiny_tokenizer
from helpers.tiny_directory import write_tiny_directory
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.options import option_help
from kbert.pipelines.registry import task_class, task_names
from kbert.pipelines.settings import ModelSettings
from kbert.tasks import Classification, Encoder, MultipleChoice, Regression, SpanExtraction, Tagging


def test_round_trip():
    task = Classification(
        text="review",
        labels=["a", "b"],
        thresholds=[0.25, 0.5],
        pair=True,
        doc_stride=9,
        label_separator="|",
    )
    settings = ModelSettings(task=task, sequence_length=64, tokenizer={"lowercase": False})
    fields = settings.to_dict()
    assert fields == {
        "task": {
            "name": "classification",
            "labels": ["a", "b"],
            "thresholds": [0.25, 0.5],
            "pair": True,
            "window_pooling": None,
            "doc_stride": 9,
        },
        "sequence_length": 64,
        "tokenizer": {"lowercase": False},
    }
    again = ModelSettings.from_dict(json.loads(json.dumps(fields)))
    assert again.to_dict() == fields
    assert again.task == dataclasses.replace(task, text="text", label_separator=None, metrics=None)
    assert ModelSettings.from_dict({"task": {"name": "span"}}) == ModelSettings(task="span")
    assert ModelSettings(task="span").task == SpanExtraction()


def test_wrong_settings():
    wrong_inputs(
        lambda fields: ModelSettings.from_dict({"task": {"name": "classification"}} | fields),
        ({"lable": 1}, r"unknown fields \['lable'\]"),
        ({"task": "classification"}, "`task` must be an object with the `name` of a task. Received: 'classification'"),
        ({"task": {"labels": ["a"]}}, "`task` must be an object with the `name`"),
        ({"task": {"name": "parsing"}}, "Expected one of the tasks .*Received: 'parsing'"),
        ({"task": {"name": "classification", "text": "review"}}, r"unknown fields \['text'\]"),  # of its files
        ({"task": {"name": "classification", "top_k": 3}}, r"Classification: unknown fields \['top_k'\]"),
        ({"sequence_length": 0}, "sequence_length.*Received: 0"),
        ({"tokenizer": "bert"}, "tokenizer.*Received: 'bert'"),
    )


def test_wrong_fields():
    wrong_inputs(
        lambda task_and_fields: task_and_fields[0](**task_and_fields[1]),
        ((Classification, {"labels": [1, 2]}), "`labels` must be a list, each item a string"),
        ((Classification, {"thresholds": "0.5"}), r"`thresholds` must be .* \(0, 1\) or None. Received: '0.5'"),
        ((Classification, {"thresholds": [0.5, True]}), "`thresholds` must be "),
        ((Classification, {"thresholds": [0]}), "`thresholds` must be "),
        ((Classification, {"pair": "no"}), "`pair` must be True or False. Received: 'no'"),
        ((Classification, {"doc_stride": 1.5}), "doc_stride.*Received: 1.5"),
        ((Regression, {"window_pooling": "sum"}), r"one of \('max', 'mean'\) or None. Received: 'sum'"),
        ((Encoder, {"pooling": "medoid"}), "`pooling` must be one of .*Received: 'medoid'"),
        ((SpanExtraction, {"null_threshold": float("nan")}), "null_threshold.*Received: nan"),
        ((SpanExtraction, {"version": "3"}), r"`version` must be one of .'1.1', '2.0'.*Received: '3'"),
        ((SpanExtraction, {"n_best": 0}), "n_best.*Received: 0"),
        ((SpanExtraction, {"max_answer_length": True}), "max_answer_length.*Received: True"),
        ((Tagging, {"scheme": "iob"}), "`scheme` must be one of .*Received: 'iob'"),
        ((MultipleChoice, {"format": "csv"}), "`format` must be one of .*Received: 'csv'"),
    )


def test_arrays_and_numpy_values_are_stored_as_json_has_them():
    given = {"thresholds": np.array([0.25, 0.5], "float32"), "pair": np.True_}
    task = Classification(labels=np.array(["a", "b"]), **given)
    assert json.loads(json.dumps(task.stored())) == task.stored()
    assert task == Classification(labels=["a", "b"], thresholds=[0.25, 0.5], pair=True)
    assert SpanExtraction(null_threshold=np.float32(2)).stored()["null_threshold"] == 2.0


@pytest.mark.parametrize("word", task_names())
def test_every_task_says_of_what_it_is_made(word):
    """Its fields come back from what is stored, and each has a sentence for the help."""
    task = task_class(word)
    assert task.name == word and task.from_stored(task().stored()) == task()
    assert set(option_help(task)) >= {field.name for field in dataclasses.fields(task)}


def test_tasks_load_no_tensorflow():
    """So that the help of the command is there at once, and models are saved on machines without it."""
    loaded = "; ".join(f"task_class({word!r})()" for word in task_names())
    assert_imports_none(f"from kbert.pipelines.registry import task_class; {loaded}", "tensorflow", "keras")
    assert_imports_none("import kbert; kbert.tasks.glue('MNLI')", "tensorflow", "keras")


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
    settings = settings_of("classification", 9, thresholds=thresholds)
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
    assert getattr(kbert.load_pretrained(tmp_path / "it").pretrained.settings.task, name) == value


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
