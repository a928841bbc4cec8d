"""Limits on requests, in the exported graphs: what is beyond them is refused at once, what is within is answered."""

import functools
import json
import pathlib
import re
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers.served_models import SOME_KINDS, make_pipeline, warmup_requests
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.serving.limits import ServingLimits
from kbert.serving.signatures import signatures
from kbert.serving.warmup import encode_example

REFUSED = "A request may hold at most"
SHORT = {"text": "good", "text_pair": "film", "question": "who?", "context": "a film", "prompt": "a", "choices": ["a"]}


def inputs_of(signature, rows):
    """The rows, dicts of column → string, as tensors that the signature's function takes."""
    if signature.kind != "predict":
        return {"inputs": tf.constant([encode_example(row) for row in rows])}
    shapes = {name: [0] * len(spec.shape) for name, spec in signature.inputs.items()}
    return {
        name: tf.constant([row[name] for row in rows], tf.string, None if rows else shape)
        for name, shape in shapes.items()
    }


def short_row(signature):
    return {name: SHORT[name] for name in signature.examples[0]}


@pytest.fixture
def all_signatures(served):
    """(name, what the SavedModel runs, its `ServingSignature`)"""
    return [(name, served.loaded[name], one) for name, one in served.signatures.items()]


@pytest.mark.parametrize("served", SOME_KINDS, indirect=True)
def test_too_many_bytes(all_signatures):
    for name, run, signature in all_signatures:
        row = short_row(signature)
        column = list(row)[-1]
        row[column] = [b"good " * 210_000] if column == "choices" else b"good " * 210_000
        start = time.process_time()
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{REFUSED} 1048576 bytes of text. Received: 10500"):
            run(**inputs_of(signature, [row]))
        assert time.process_time() - start < 30, name  # the first call of a graph among them


@pytest.mark.parametrize("served", SOME_KINDS, indirect=True)
def test_too_many_rows(all_signatures):
    for _, run, signature in all_signatures:
        rows = [{name: [""] if name == "choices" else "" for name in short_row(signature)}] * (signature.max_rows + 1)
        if signature.kind != "predict" and len(encode_example(rows[0])) * len(rows) > 2**20:
            continue  # the bytes of the messages are too many before the rows are
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{REFUSED} {signature.max_rows} rows of .* tokens"):
            run(**inputs_of(signature, rows))


def test_too_many_choices(served_models):
    run = served_models["multiple_choice"].loaded["choose"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{REFUSED} .* rows.* Received: 100000"):
        run(prompt=tf.constant(["a"]), choices=tf.constant([["x"] * 100_000]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{REFUSED} .* rows.* Received: 100000"):
        run(prompt=tf.constant([""] * 100_000), choices=tf.zeros([100_000, 0], tf.string))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """Function of a kind: (path, pipeline, what a server loads) of a model that was exported with small limits."""

    @functools.cache
    def export(kind):
        pipeline, directory = make_pipeline(kind)[0], tmp_path_factory.mktemp("narrow")
        size = 8 * pipeline.preprocessor.sequence_length
        path = kbert.export(pipeline, directory / kind, max_request_bytes=2000, max_request_tokens=size)
        return path, pipeline, tf.saved_model.load(str(path))

    return export


@pytest.mark.parametrize("kind", slow_but(("span",), ("span", "tagging")))  # both cut texts into windows
def test_texts_within_the_limits_are_answered_as_before(narrow, kind):
    """The longest text that is allowed gets the answer of the pipeline in Python, which has no limits."""
    _, pipeline, model = narrow(kind)
    run = model.signatures["serving_default"]
    other = {"question": "the capital?"} if kind == "span" else {}
    column, allowed = pipeline.preprocessor.input_names[-1], 0
    for words in range(10, 120, 2):
        columns = {name: [text] for name, text in {**other, column: "the film " * words + "in London"}.items()}
        try:
            answers = run(**{name: tf.constant(value) for name, value in columns.items()})
        except tf.errors.InvalidArgumentError as error:
            assert f"{REFUSED} 8 rows of" in str(error)
            break
        allowed += 1
    assert 0 < allowed < 50
    columns[column] = ["the film " * (words - 2) + "in London"]
    answers = run(**{name: tf.constant(value) for name, value in columns.items()})
    for name, value in pipeline(columns).items():
        if value.dtype == tf.string:
            np.testing.assert_array_equal(answers[name], value)
        else:
            np.testing.assert_allclose(answers[name], value, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", slow_but(("span",), ("regression", "span", "multiple_choice")))
def test_columns_of_different_lengths_are_refused(narrow, kind):
    path, pipeline, model = narrow(kind)
    kbert.audit(path).require_clean()
    names = pipeline.preprocessor.input_names
    columns = {name: tf.constant([SHORT[name]] * rows) for name, rows in zip(names, (3, 1), strict=True)}
    message = f"expected the columns {names[0]}, {names[1]} in one length. Received: 3, 1"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        model.signatures["serving_default"](**columns)


def test_windows_are_refused_before_memory_is_taken(tmp_path):
    """A stride of one makes a window of every token: 2 GB for half of what the bytes allow."""
    narrow = make_pipeline("span")[0]
    pipeline = kbert.build_pipeline(narrow.model, narrow.tokenizer, doc_stride=1)
    run = signatures(pipeline)["answer"].function
    start = time.process_time()
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{REFUSED} \d+ rows .* Received: 26213\d"):
        tf.function(run)(tf.constant(["a"]), tf.constant(["a " * 2**18]))
    assert time.process_time() - start < 60


@pytest.mark.slow  # test_windows_are_refused_before_memory_is_taken
def test_candidates_do_not_copy_their_context():
    """Each of thousands of candidate answers had a copy of the whole context: GBs where it is a megabyte."""
    model, tokenizer = kbert.BertSpanExtractor(tiny_config()), tiny_tokenizer()
    randomise(model, scale=1.0)
    ask_for = tf.function(signatures(kbert.build_pipeline(model, tokenizer, sequence_length=16))["answer"].function)
    context = "good film . " * 1000 + " " * 1_000_000 + "London"
    ask_for(tf.constant(["good?"]), tf.constant(["in London"]))
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew (Linux)
    before = _peak_megabytes()
    answers = ask_for(tf.constant(["good?"]), tf.constant([context]))
    assert answers["answer"][0].numpy().decode() == context[answers["start"][0].numpy() : answers["end"][0].numpy()]
    assert _peak_megabytes() - before < 500


def _peak_megabytes():
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024


def test_a_long_text_among_many_short_ones(served_models):
    """A tagger's answers are as wide as the longest text, so that one of 4,000 among 4,000 would be 500 MB."""
    run = served_models["tagging"].loaded["tag"]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"{REFUSED} 209\d{{4}} word positions .* Received: 2251500"
    ):
        run(text=tf.constant(["a " * 1_500] + [""] * 1_500))


def test_outputs_of_many_numbers_allow_fewer_rows():
    limits = ServingLimits()
    assert limits.max_rows(128) == 1024 and limits.max_rows(512) == 256
    assert limits.max_rows(128, 8 * 30522) == 274  # fill-mask: the logits of 8 masks
    assert limits.max_rows(512, 512 * 4 * 1024) == 32  # four layers of BERT large
    fill_mask = make_pipeline("fill_mask")[0]
    found = signatures(fill_mask, limits=ServingLimits(max_request_tokens=2**40))
    assert found["fill_mask"].max_rows == 2**26 // (3 * fill_mask.model.config.vocabulary_size)
    encoder = make_pipeline("encoder")[0]
    found = signatures(encoder, limits=ServingLimits(max_request_tokens=2**40))
    assert found["features"].max_rows == 2**26 // (13 * 4 * 96) and found["embed"].max_rows == 2**26 // (13 * 96)


@pytest.mark.parametrize("kind", slow_but(("span",), ("span", "tagging", "multiple_choice")))
def test_the_card_and_warm_up_of_small_limits(narrow, kind):
    path, pipeline, model = narrow(kind)
    card = json.loads((path / "card.json").read_text("utf-8"))
    size = pipeline.preprocessor.sequence_length
    assert card["limits"] == {"max_request_bytes": 2000, "max_request_tokens": 8 * size}
    assert {signature["max_rows"] for signature in card["signatures"].values()} == {8}
    loaded, records = model.signatures, 0
    for _, name, columns in warmup_requests(path):
        loaded[name](**{key: tf.constant(value) for key, value in columns.items()})
        records += 1
    assert records >= 2 * len(loaded), "a server refuses a model that refuses its warm-up"
