"""What a careless caller hands over is answered by a sentence that names the argument and the place."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.corpus.write_records import write_records
from kbert.preprocessing.preprocessor import ChoicePreprocessor, TextPreprocessor
from kbert.preprocessing.window_preprocessors import SpanPreprocessor
from kbert.text.learn_vocabulary import learn_vocabulary
from kbert.text.vocabulary import SPECIAL_TOKENS

PREPROCESSORS = {
    "text": (TextPreprocessor, {}),
    "pair": (TextPreprocessor, {"pair": True}),
    "span": (SpanPreprocessor, {}),
    "choices": (ChoicePreprocessor, {}),
}
NAN = float("nan")


def preprocess(kind_and_inputs):
    kind, inputs = kind_and_inputs
    make, arguments = PREPROCESSORS[kind]
    return make(tiny_tokenizer(), 12, **arguments)(inputs)


@pytest.mark.parametrize(
    "kind, missing, empty",
    [
        ("text", ["a", "b", None], ["a", "b", ""]),
        ("text", np.array([None, NAN], object), ["", ""]),
        ("pair", {"text": ["a", "b"], "text_pair": ["a", None]}, {"text": ["a", "b"], "text_pair": ["a", ""]}),
        ("span", {"question": ["a", None], "context": ["a", "b"]}, {"question": ["a", ""], "context": ["a", "b"]}),
        ("choices", {"prompt": [None], "choices": [["a", None]]}, {"prompt": [""], "choices": [["a", ""]]}),
    ],
)
def test_missing_texts_are_empty(kind, missing, empty):
    found, expected = preprocess((kind, missing)), preprocess((kind, empty))
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


def test_texts_that_are_none():

    wrong_inputs(
        preprocess,
        (("text", ["a", 7]), r"`text`\[1\]: expected str. Received: 7"),
        (("text", None), "`text`: expected str. Received: None"),
        (("text", {"text": None}), "`text`: expected str. Received: None"),
        (("text", [["a"], ["b", "c"]]), "`text` must be a column of strings"),
        (("choices", {"prompt": ["a", "b"], "choices": [["a"], None]}), r"`choices`\[1\]: expected a list of strings"),
    )


@pytest.fixture(scope="module")
def pipeline():
    return kbert.build_pipeline(kbert.BertClassifier(tiny_config(), num_labels=2), tiny_tokenizer(), sequence_length=8)


HUGGING_FACE = {name: np.ones((2, 5), "int32") for name in ("input_ids", "attention_mask", "token_type_ids")}


def test_a_pipeline(pipeline):
    for use in (pipeline, lambda inputs: pipeline.predict(inputs, verbose=0)):
        with pytest.raises(ValueError, match=r"missing: \['text'\]. attention_mask, input_ids, token_type_ids are for"):
            use(HUGGING_FACE)
        with pytest.raises(ValueError, match="token_ids are for the model itself; here texts are strings"):
            use({"token_ids": [[1]]})


STRINGS = np.array(["a film", "good"], np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else object)


@pytest.mark.parity
def test_strings_in_containers_of_other_libraries(pipeline):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, 2, 3], "text": ["x", "a film", "good"]})[1:]
    pipeline.run_eagerly = True
    expected = pipeline.predict(["a film", "good"], verbose=0)["probabilities"]
    for inputs in (frame, frame["text"], dict(frame), STRINGS, {"text": STRINGS}):
        found = pipeline.predict(inputs, verbose=0)["probabilities"]
        np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"expected a dict with \['text'\]. Received: \['id'\]; missing: \['text'\]"):
        pipeline.predict(frame[["id"]], verbose=0)


def test_containers_that_are_no_column(pipeline):
    wrong_inputs(
        lambda inputs: pipeline.predict(inputs, verbose=0),
        (tf.ragged.constant([["a", "b"], ["c"]]), "`text` must be a column of strings"),
        owner="Pipeline: ",
    )
    wrong_inputs(
        lambda inputs: pipeline.predict(inputs, verbose=0),
        (tf.sparse.from_dense(tf.constant(["a"])), "`text` must hold strings, as a list or array. .*Sparse"),
        ({"a"}, "`text` must hold strings, as a list or array. Received: {'a'}"),
        (["a\ud800"], "`text` must hold Unicode strings. Received: "),
        error=TypeError,
        owner="Pipeline: ",
    )


def test_datasets_must_have_batches(pipeline):
    texts = tf.data.Dataset.from_tensor_slices({"text": ["a", "b"]})
    pipeline.compile("sgd")
    labelled = tf.data.Dataset.zip(texts, tf.data.Dataset.from_tensor_slices([0, 1]))
    for use, dataset in ((pipeline.predict, texts), (pipeline.fit, labelled), (pipeline.evaluate, labelled)):
        with pytest.raises(ValueError, match=r"Pipeline: expected a dataset of batches \(dataset.batch\(32\)\)"):
            use(dataset, verbose=0)
        with pytest.raises(ValueError, match="Pipeline: expected a dataset of batches. Received: an empty dataset"):
            use(dataset.batch(2).take(0), verbose=0)
    for name in ("batch_size", "steps"):
        with pytest.raises(ValueError, match=f"Pipeline: `{name}` must be a positive integer or None. Received: 0"):
            pipeline.predict(["a"], verbose=0, **{name: 0})


def test_choices_in_other_containers():
    preprocessor = ChoicePreprocessor(tiny_tokenizer(), 12)
    lists = np.empty(2, object)
    lists[:] = [["good", "bad"], ["a"]]
    expected = preprocessor({"prompt": ["a", "film"], "choices": lists.tolist()})["token_ids"]
    arrays = [np.array(["good", "bad"]), np.array(["a"])]
    for choices in (lists, arrays, tf.ragged.constant(lists.tolist())):
        prompt = tf.constant(["a", "film"]) if tf.is_tensor(choices) else ["a", "film"]
        batch = preprocessor({"prompt": prompt, "choices": choices})
        np.testing.assert_array_equal(batch["token_ids"], expected)


@pytest.mark.parametrize("as_tensors", [False, True])
def test_hugging_face_names(pipeline, as_tensors):
    batch = {name: tf.constant(value) if as_tensors else value for name, value in HUGGING_FACE.items()}
    model = pipeline.model
    model.compile("sgd")
    message = (
        "BertClassifier: expected a batch with the keys .*Hugging Face's attention_mask is padding_mask here, "
        "input_ids is token_ids here, token_type_ids is segment_ids here"
    )
    for use in (
        model,
        lambda batch: model.predict(batch, verbose=0),
        lambda batch: model.fit(batch, {"logits": np.zeros(2, "int32")}, verbose=0),
    ):
        with pytest.raises(ValueError, match=message):
            use(batch)
    with pytest.raises(ValueError, match=r"BertEncoder: .*missing: \['token_ids'\]"):
        model.encoder({name: np.ones((2, 5), "int32") for name in ("segment_ids", "padding_mask")})


@pytest.mark.parametrize("more", [[], ["[unused0]", "[unused1]"]])
def test_a_vocabulary_of_special_tokens_alone(more, tmp_path):
    tokens = [*SPECIAL_TOKENS, *more]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    for vocabulary in (tokens, tmp_path / "vocab.txt"):
        with pytest.raises(ValueError, match=f"tokens other than the special ones.* Received: {len(tokens)} tokens"):
            kbert.BertTokenizer(vocabulary)


def test_text_without_a_word():
    wrong_inputs(
        lambda lines: learn_vocabulary(lines, 100),
        *((lines, "contains no words") for lines in ([""], ["\x00", " "], [])),
        (["a", None], r"`lines`\[1\]: expected str. Received: None"),
    )


def test_documents_that_are_none(tmp_path):
    wrong_inputs(
        lambda documents: write_records(documents, tiny_tokenizer(), tmp_path / "records"),
        (["a sentence"], r"documents\[0\]: expected a list of sentences. Received: 'a sentence'"),
        ([["a"], None], r"documents\[1\]: expected a list of sentences. Received: None"),
        ([["a"], ["b", None]], r"documents\[1\]\[1\]: expected str. Received: None"),
    )
