"""`kbert.inspect`: from a model and texts to figures, files and TensorBoard data."""

import functools
import importlib.util
import json
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import WORDS, randomise, tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_values

import kbert
from kbert.inspection.analysis.labelled_data import labelled_data
from kbert.inspection.analysis.report import pictures
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.tagging.readers import TaggedText

FIND = importlib.util.find_spec
SENTENCES = [["the", "film", "is", "good"], ["a", "bad", "film", "!"], ["paris", "france", "never", "was"]] * 4
TAGS = [["O", "O", "O", "O"], ["O", "O", "O", "O"], ["B-LOC", "I-LOC", "O", "O"]] * 4
DATA = {
    "words": SENTENCES,
    "pos": [["D", "N", "V", "A"], ["D", "A", "N", "."], ["N", "N", "R", "V"]] * 4,
    "tags": TAGS,
    "heads": [[1, 3, 3, -1], [2, 2, -1, 2], [-1, 0, 3, 0]] * 4,
}


@pytest.fixture(scope="module")
def pipeline():
    model = randomise(kbert.BertClassifier(tiny_config(), num_labels=2), scale=0.2)
    return kbert.build_pipeline(model, tiny_tokenizer(), labels=["bad", "good"])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("inspection")


@pytest.fixture(scope="module")
def found(pipeline, place):
    other = randomise(kbert.BertEncoder(tiny_config()), seed=1, scale=0.2)
    return kbert.inspect(
        pipeline,
        ["the film is good", ("a film", "never bad")],
        DATA,
        compare=other,
        name="tiny",
        counts=np.arange(pipeline.tokenizer.vocabulary_size),
        directory=place / "files",
        log_dir=place / "logs",
    )


def test_the_figures(found, pipeline):
    assert repr(found) == "<Inspection of tiny: 2 texts, probes of ['pos', 'entity type', 'position']>"
    outputs = pipeline.model.encoder.with_outputs("hidden_states", "attention_probs")(found.texts[1].batch)
    np.testing.assert_allclose(found.texts[1].hidden_states, [h[0] for h in outputs["hidden_states"]], atol=1e-6)
    np.testing.assert_allclose(found.texts[1].attention, [p[0] for p in outputs["attention_probs"]], atol=1e-6)
    assert all(values.shape == (2, 3) for values in found.statistics.values())
    answer = pipeline.predict(["the film is good"], verbose=0)["label"][0]
    assert found.attributions[0].target == f"the logit of the label “{answer}”" and found.attributions[0].is_complete
    assert found.probes["entity type"].labels == ["LOC", "O"] and len(found.probes["pos"].accuracy) == 3
    assert found.syntax["words"] > 0 and found.entities["words"] > 0 and found.similarity.shape == (3, 3)
    assert found.other == "BertEncoder" and found.model["task"] == "classification"
    words, context = found.embeddings
    assert words.columns["token"][0] == pipeline.tokenizer.vocabulary[-1]
    assert words.columns["count"][0] == len(words.vectors) - 1
    table = np.array(pipeline.model.encoder.token_embedding.embeddings)
    np.testing.assert_array_equal(words.vectors[0], table[-1])
    assert set(context.columns) == {"word", "pos", "entity type", "position", "sentence"}


def test_without_scikit_learn_there_are_no_probes(pipeline, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "sklearn" else FIND(name, *rest)
    )
    assert kbert.inspect(pipeline, ["the film"], DATA).probes == {}
    assert "scikit-learn, which the extra inspect installs" in caplog.text


def test_a_model_is_like_itself(pipeline):
    found = kbert.inspect(pipeline, ["the film"], compare=pipeline)
    np.testing.assert_allclose(np.diag(found.similarity), 1, rtol=1e-6)


def test_the_files(found, place):
    files = place / "files"
    assert sorted(path.name for path in files.iterdir()) == ["figures.json", "report.html"]
    figures = json.loads((files / "figures.json").read_text("utf-8"))
    assert figures == json.loads(json.dumps(found.to_dict()))
    assert "the film is good" in (files / "report.html").read_text("utf-8")


def test_the_tensorboard_data(found, place):
    tags = {}
    (events,) = (place / "logs/inspection").glob("*tfevents*")
    for event in tf.compat.v1.train.summary_iterator(str(events)):
        for value in event.summary.value:
            tags.setdefault((value.metadata.plugin_data.plugin_name, value.tag), []).append((event.step, value))
    kinds = {kind for kind, _ in tags}
    assert kinds == {"images"}
    assert {f"model {name}" for name in pictures(found)} == {tag for _, tag in tags}
    assert (place / "logs/inspection/projector_config.pbtxt").is_file()


def test_texts_with_labels(pipeline):
    texts = LabelledText(
        [f"the {word} film" for word in WORDS],
        np.arange(len(WORDS)) % 2,
        [f"{word} !" for word in WORDS],
        label_names=("no", "yes"),
    )
    found = kbert.inspect(pipeline, data=texts)
    assert set(found.probes) == {"label"} and found.probes["label"].labels == ["no", "yes"]
    assert found.embeddings[1].columns["text"][0].endswith(" !") and found.syntax is None
    assert found.probes["label"].test_words == round(0.2 * len(WORDS))


def test_masks_are_read_where_the_model_fills_them():
    model = randomise(kbert.BertPretrainer(tiny_config()), scale=0.2)
    found = kbert.inspect(model, ["the [MASK] film"], tokenizer=tiny_tokenizer())
    assert "[MASK]" in found.texts[0].tokens and "for the first [MASK]" in found.attributions[0].target


def test_examples_of_tasks_are_data():
    tagged = labelled_data(TaggedText(SENTENCES[:3], TAGS[:3], [0, 1, 2]), "data")
    assert tagged.properties()["entity type"] == ["O"] * 8 + ["LOC", "LOC", "O", "O"]
    assert tagged.properties()["position"][:5] == ["00", "01", "02", "03", "00"]
    assert len(tagged.up_to(5)) == 2 and len(tagged.up_to(4)) == 1 and len(tagged.up_to(100)) == 3


def test_examples_with_several_labels_have_a_property_for_each():
    rows = [{"text": "good", "label": "fun|short"}, {"text": "bad", "label": "short"}, {"text": "a film", "label": ""}]
    several = labelled_data(kbert.tasks.Classification(label_separator="|").examples(rows), "data")
    assert several.properties() == {"label fun": ["yes", "no", "no"], "label short": ["yes", "yes", "no"]}
    plain = labelled_data(LabelledText(["good", "bad"], np.array([[1, 0], [0, 0]])), "data")
    assert plain.properties() == {"label 0": ["yes", "no"], "label 1": ["no", "no"]}


@pytest.mark.slow  # wrong files: faults/test_recipe_paths.py
def test_errors_name_the_argument(pipeline):
    wrong_values(
        functools.partial(kbert.inspect, pipeline),
        ({"texts": []}, "`texts`: expected at least one"),
        ({"texts": ["a", 3]}, r"`texts`\[1\]: expected a string, or a tuple of two strings. Received: 3"),
        ({"texts": [("a", "b", "c")]}, r"`texts`\[0\]"),
        ({"data": {"pos": [["A"]]}}, r"Received: the columns \['pos'\]"),
        ({"data": {"words": [["a"]], "pos": []}}, "columns of one length"),
        ({"data": {"words": [["a", "b"]], "pos": [["A"]]}}, "sentence 0: expected 2 of 'pos'"),
        ({"data": {"words": ["EU rejects", "it"]}}, "sentence 0: expected a list of words. Received: 'EU"),
        ({"data": {"words": [["a", "b"]], "heads": [[1, 2]]}}, "sentence 0: expected `heads` from -1 to 1"),
        ({"data": {"text": ["a"]}}, "expected a column of labels"),
        ({"data": {"words": [["a"]], "pos": [["A"]]}}, "at least two sentences or texts, or `dev`"),
        ({"dev": {"words": [["a"]], "pos": [["A"]]}}, "Received: no `data`"),
        ({"data": DATA, "dev": {"words": [["a"]]}}, "`dev`: expected the columns of `data`.* 'pos'"),
        ({"data": DATA, "dev": {"text": ["a"], "pos": ["A"]}}, "`dev`: expected labelled words, as `data`"),
        ({"counts": [1, 2]}, "`counts`: expected a number for each of 25 tokens"),
        ("max_words", 0, "a positive integer. Received: 0"),
        ("texts", 3, "an iterable or None. Received: 3"),
        ("data", 3, "a dict, an Examples or None. Received: 3"),
    )
    wrong_values(
        functools.partial(kbert.inspect, pipeline),
        ("data", [], "a mapping of columns.* Received: list"),
        ("compare", set(), "a kbert model.* Received: set"),
        error=TypeError,
    )


def test_models_that_do_not_fit_are_named(pipeline):
    with pytest.raises(TypeError, match="`model` must be a kbert model, a pipeline, or the path of one. Received: set"):
        kbert.inspect(set())
    with pytest.raises(ValueError, match="pass `tokenizer`: the `model` was not loaded with one"):
        kbert.inspect(pipeline.model)
    with pytest.raises(ValueError, match=r"as many tokens as the table of the `model` has rows \(9\)"):
        kbert.inspect(
            kbert.BertEncoder(kbert.BertConfig.from_size("tiny", vocabulary_size=9)), tokenizer=tiny_tokenizer()
        )
    with pytest.raises(NotADirectoryError, match="is a file"):
        kbert.inspect(pipeline, log_dir=__file__)
