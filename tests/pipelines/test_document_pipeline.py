"""Long documents: windows of texts, pooled answers, and that short texts are what they are without windows."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.preprocessing.window_preprocessors import DocumentPreprocessor
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.metrics import accuracy
from kbert.tasks.scores import evaluate
from kbert.tasks.training_data import WindowStore

TEXTS = ["Paris is the capital. " * 12, "", "A very good film!", "中 é \U0001f600 was never bad. " * 7, "of"]


@pytest.fixture(scope="module")
def model():
    return randomise(kbert.BertClassifier(tiny_config(num_layers=1), num_labels=3))


def build(model, windows, stride=4):
    return kbert.build_pipeline(
        model, tiny_tokenizer(), window_pooling=windows, doc_stride=stride, labels=["a", "b", "c"]
    )


@pytest.mark.parametrize("windows", slow_but(("mean",), ("max", "mean")))
@pytest.mark.usefixtures("eagerly")  # in a graph: the export below
def test_pooled_over_the_windows_of_each_text(model, windows):
    probabilities = build(model, windows).predict(TEXTS)["probabilities"]
    ids = tiny_tokenizer()(tf.constant(TEXTS)).to_list()
    room, cls, sep = 17, tiny_tokenizer().cls_id, tiny_tokenizer().sep_id
    for tokens, received in zip(ids, probabilities, strict=True):
        starts = [0]
        while starts[-1] + room < len(tokens):
            starts.append(starts[-1] + 4)
        logits = []
        for start in starts:
            packed = np.array([[cls, *tokens[start : start + room], sep]], "int32")
            logits.append(
                model({"token_ids": packed, "segment_ids": 0 * packed, "padding_mask": packed >= 0})["logits"][0]
            )
        pooled = np.max(logits, axis=0) if windows == "max" else np.mean(logits, axis=0)
        np.testing.assert_allclose(received, np.exp(pooled) / np.exp(pooled).sum(), atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_texts_that_fit_are_as_without_windows(model):
    short = [TEXTS[1], TEXTS[2], TEXTS[4]]
    plain = kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b", "c"])
    np.testing.assert_allclose(
        build(model, "mean").predict(short)["probabilities"], plain.predict(short)["probabilities"], atol=1e-6
    )


@pytest.mark.usefixtures("eagerly")
def test_a_regressor(tmp_path):
    model = randomise(kbert.BertRegressor(tiny_config(num_layers=1)))
    texts = TEXTS[:1] * 2 + TEXTS[2:3]
    scores = kbert.build_pipeline(model, tiny_tokenizer(), window_pooling="mean", doc_stride=99).predict(texts)["score"]
    batch = DocumentPreprocessor(tiny_tokenizer(), 19, 99)(texts)
    every = model({name: batch[name] for name in model.input})["score"].numpy()
    rows = batch["window_row"].numpy()
    assert len(rows) > 6
    np.testing.assert_allclose(scores, [every[rows == row].mean() for row in range(3)], atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_learnt_by_window_and_judged_as_a_whole(model):
    examples = LabelledText(TEXTS, np.array([0, 1, 2, 0, 1], "int32"))
    pipeline = build(model, "mean")
    store = WindowStore.from_examples(examples, pipeline.preprocessor)
    batch = pipeline.preprocessor(TEXTS)
    np.testing.assert_array_equal(store.batch(range(len(store)))["token_ids"], batch["token_ids"])
    np.testing.assert_array_equal(store.rows, batch["window_row"])
    task = kbert.tasks.Classification(window_pooling="mean")
    options = {"batch_size": 64, "seed": 1, "padding": "full", "group_by_length": False}
    inputs, labels = next(iter(task.training_data(pipeline, examples, **options).make_dataset()))
    label_of = dict(zip(map(tuple, batch["token_ids"].numpy()), examples.labels[store.rows], strict=True))
    assert [label_of[tuple(ids)] for ids in inputs["token_ids"].numpy()] == labels["logits"].numpy().tolist()
    scores, _ = evaluate(pipeline, examples, ["accuracy"], batch_size=2)
    probabilities = pipeline.predict(TEXTS)["probabilities"]
    assert scores["accuracy"] == accuracy(examples.labels, probabilities.argmax(axis=1))
    assert scores["loss"] == pytest.approx(-np.log(probabilities[np.arange(5), examples.labels]).mean(), abs=1e-4)


def test_errors(model):
    with pytest.raises(ValueError, match=r"`window_pooling` must be one of .* Received: 'sum'"):
        build(model, "sum")
    with pytest.raises(ValueError, match="`window_pooling` is for single texts"):
        kbert.build_pipeline(model, tiny_tokenizer(), window_pooling="max", pair=True)
