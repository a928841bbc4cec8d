"""Where there is nothing to choose from, the answer says so: in Python and in the graph that is exported alike."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert

ONE = tiny_config(num_layers=1)
BLANKS = ["", " ", "\t\n", "\x00", "\u200b"]
TAGS = ["O", "B-X", "I-X"]


def pipeline_of(model, **options):
    pipeline = kbert.build_pipeline(randomise(model), tiny_tokenizer(), **options)
    pipeline.run_eagerly = True  # the graph is that of `answers_of`
    return pipeline


def answers_of(pipeline, columns, in_graph=True):
    """What Python gives, after a check that the graph of the exported model gives the same."""
    answers = pipeline.predict(columns, verbose=0)
    if not in_graph:
        return answers
    served = tf.function(pipeline._serve, input_signature=[pipeline.preprocessor.string_signature()])
    for name, values in served({name: tf.constant(column) for name, column in columns.items()}).items():
        is_text, values = values.dtype == tf.string, values.numpy()
        values = np.char.decode(values.astype(bytes)) if is_text else values
        if values.dtype.kind == "f" and not is_text:  # NumPy 1 decodes no strings to floats
            np.testing.assert_allclose(values, answers[name], atol=1e-5)
        else:
            assert values.tolist() == answers[name].tolist(), name
    return answers


@pytest.mark.parametrize("answer", slow_but(("entities",), ("tags", "entities")))
def test_no_words(answer):
    answers = answers_of(pipeline_of(kbert.BertTagger(ONE, 3), labels=TAGS, tagging_output=answer), {"text": BLANKS})
    assert answers["count"].tolist() == [0] * len(BLANKS) and answers["scores"].shape == (len(BLANKS), 0)


class Without(keras.utils.PyDataset):
    """No batches."""

    def __len__(self):
        return 0


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("model", [kbert.BertClassifier(ONE), kbert.BertTagger(ONE, 3)], ids=lambda model: model.task)
def test_no_batch(model):
    """Of a source whose size is not known before it is read."""
    pipeline = pipeline_of(model)
    none = tf.data.Dataset.from_tensors(["a film"]).filter(lambda _: False)
    for source in (none, none.apply(tf.data.experimental.assert_cardinality(0))):
        with pytest.raises(ValueError, match="Pipeline: expected a dataset of batches. Received: an empty dataset"):
            pipeline.predict(source, verbose=0)
    for source in ((batch for batch in ()), Without()):  # some of which Keras refuses
        with pytest.raises(ValueError, match="empty (dataset|generator)|has length 0"):
            pipeline.predict(source, verbose=0)


@pytest.mark.parametrize("in_graph", slow_but((False,), (False, True)))  # in the graph: serving/test_export.py
def test_no_mask(in_graph):
    pipeline = pipeline_of(kbert.BertPretrainer(ONE), max_masks=2, top_k=2)
    answers = answers_of(pipeline, {"text": [*BLANKS, "a film"]}, in_graph)
    assert answers["count"].tolist() == [0] * (len(BLANKS) + 1)
    assert not any(answers["tokens"].ravel()) and not answers["probabilities"].any()
