"""Taggers as pipelines: strings in, tags or entities out, whatever the batches."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.compare import assert_same_answers
from helpers.run_eagerly import run_eagerly
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.tasks.tagging.tag_scheme import entity_chunks

LABELS = ["O", "B-PER", "I-PER"]
TEXTS = ["Paris is good.", "", "never in the capital of France, London was " * 4, "a film"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tagger as it comes out of a kbert directory."""
    model = randomise(kbert.BertTagger(tiny_config(num_layers=1), num_labels=3), seed=4)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=LABELS, sequence_length=13, doc_stride=3)
    path = tmp_path_factory.mktemp("tagger") / "model"
    kbert.save_pretrained(pipeline, path)
    return kbert.load_pretrained(path)


@pytest.fixture(scope="module")
def pipelines(model):
    return {answer: kbert.build_pipeline(model, tagging_output=answer) for answer in ("tags", "entities")}


@pytest.fixture(scope="module")
def answers(pipelines):
    with run_eagerly():  # in a graph: the export below
        return {name: pipeline.predict(TEXTS, verbose=0) for name, pipeline in pipelines.items()}


def test_tags_and_entities_agree(answers):
    tags, entities = answers["tags"], answers["entities"]
    assert list(tags) == ["words", "tags", "scores", "count"]
    assert list(entities) == ["entities", "types", "starts", "ends", "scores", "count"]
    assert tags["count"].tolist() == [4, 0, 36, 2] and tags["tags"].shape == (4, 36)
    assert entities["count"].sum() > 3
    for row, text in enumerate(TEXTS):
        chunks = entity_chunks(tags["tags"][row, : tags["count"][row]].tolist())
        assert entities["types"][row, : entities["count"][row]].tolist() == [type_ for _, _, type_ in chunks]
        for n, (first, last, _) in enumerate(chunks):
            found = text[entities["starts"][row, n] : entities["ends"][row, n]]
            assert entities["entities"][row, n] == found
            assert found.startswith(tags["words"][row, first]) and found.endswith(tags["words"][row, last - 1])


@pytest.mark.parametrize("name", slow_but(("entities",), ("tags", "entities")))
@pytest.mark.usefixtures("eagerly")
def test_answers_do_not_depend_on_the_batches(name, pipelines, answers):
    pipeline, expected = pipelines[name], answers[name]
    assert_same_answers(pipeline.predict({"text": TEXTS}, batch_size=1, verbose=0), expected)
    dataset = tf.data.Dataset.from_tensor_slices({"text": TEXTS}).batch(3)
    assert_same_answers(pipeline.predict(dataset.map(lambda x: (x, 0))), expected)
    first = pipeline.predict(dataset, steps=1)
    assert len(first["count"]) == 3
    assert_same_answers(pipeline.predict_on_batch(TEXTS), expected)


@pytest.mark.usefixtures("eagerly")
def test_callbacks_and_the_progress_bar_are_those_of_keras(pipelines, answers, capsys):
    seen, pipeline = [], pipelines["entities"]

    class Watch(keras.callbacks.Callback):
        def on_predict_begin(self, logs=None):
            seen.append(self.params["steps"])

        def on_predict_batch_end(self, batch, logs=None):
            seen.append((batch, np.size(logs["count"])))  # Keras makes a float of an array of one
            self.model.stop_predicting = batch == 1

        def on_predict_end(self, logs=None):
            seen.append("end")

    capsys.readouterr()
    found = pipeline.predict(TEXTS, batch_size=1, verbose=0, callbacks=[Watch()])
    assert seen == [4, (0, 1), (1, 1), "end"]
    assert found["count"].tolist() == answers["entities"]["count"][:2].tolist()
    assert capsys.readouterr().out == ""
    pipeline.predict(tf.data.Dataset.from_tensor_slices({"text": TEXTS}).batch(3), verbose=2)
    assert "2/2" in capsys.readouterr().out


def test_what_is_stored_is_used(model, pipelines):
    settings = pipelines["tags"].settings()
    assert (settings["labels"], settings["sequence_length"], settings["doc_stride"]) == (LABELS, 13, 3)
    assert kbert.build_pipeline(model, sequence_length=19, doc_stride=128).preprocessor.doc_stride == 8  # half of 17
    assert pipelines["tags"].model is pipelines["entities"].model
    with pytest.raises(ValueError, match=r"^`labels` must be 3 names, one for each logit. Received: \['O'\]"):
        kbert.build_pipeline(model, labels=["O"])


def test_rows(pipelines, answers):
    rows = {name: list(pipelines[name].answers.to_dicts(answers[name])) for name in pipelines}
    assert json.loads(json.dumps(rows)) == rows
    assert [len(row["words"]) for row in rows["tags"]] == [4, 0, 36, 2]
    assert rows["tags"][0]["words"][0] == {
        "word": "Paris",
        "tag": answers["tags"]["tags"][0, 0],
        "score": pytest.approx(answers["tags"]["scores"][0, 0]),
    }
    for row, count in zip(rows["entities"], answers["entities"]["count"], strict=True):
        assert len(row["entities"]) == count
        assert all(set(one) == {"entity", "type", "start", "end", "score"} for one in row["entities"])
