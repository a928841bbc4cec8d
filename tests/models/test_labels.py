"""Labels that no class has: an error in arrays and datasets, NaN where a compiled step cannot raise one."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.batches import BATCH, CHOICES, LENGTH, choice_batch, config, plain_batch, pretraining_batch
from helpers.compare import assert_arrays_equal
from helpers.slow_but import slow_but

from kbert.models.classifier import BertClassifier
from kbert.models.multiple_choice import BertMultipleChoice
from kbert.models.pretrainer import BertPretrainer
from kbert.models.regressor import BertRegressor
from kbert.models.span_extractor import BertSpanExtractor
from kbert.models.tagger import BertTagger

V, P = 37, 4


def small():
    return config(num_layers=1)


def of(model_class, *arguments, **options):
    return lambda: model_class(small(), *arguments, **options)


PLACES = np.arange(BATCH)
TWO, THREE, ENDS = PLACES % 2, PLACES % 3, np.stack([PLACES, np.full(BATCH, 5)], 1)
TAGS, TOKENS = np.zeros((BATCH, LENGTH), "int32"), np.zeros((BATCH, P), "int32")
NUMBERS = np.linspace(0, 1, BATCH).astype("float32")
SEVERAL = np.array([[1, 0, -1], [0, 1, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
CASES = {  # model, batch, output, sound labels, wrong ones, what the message says they are to be
    "class": (of(BertClassifier, 3), plain_batch, "logits", THREE, [3, 7, -2, -100, 1.5], "classes, 0 to 2"),
    "tag": (of(BertTagger, 3), plain_batch, "logits", TAGS, [3, -100], "classes, 0 to 2"),
    "choice": (of(BertMultipleChoice), choice_batch, "logits", TWO, [CHOICES, 9, -5], "classes, 0 to 1"),
    "start": (of(BertSpanExtractor), plain_batch, "start_logits", PLACES, [LENGTH, -7], "classes, 0 to 6"),
    "end": (of(BertSpanExtractor), plain_batch, "end_logits", ENDS, [5, 6, 99], "classes"),
    "token": (of(BertPretrainer), pretraining_batch, "mlm_logits", TOKENS, [V, 2**20], "classes, 0 to 36"),
    "next": (of(BertPretrainer), pretraining_batch, "nsp_logits", TWO, [2, -3], "classes, 0 to 1"),
    "score": (of(BertRegressor), plain_batch, "score", NUMBERS, [np.nan, np.inf], "finite numbers"),
    "several": (
        of(BertClassifier, 3, multi_label=True),
        plain_batch,
        "logits",
        SEVERAL,
        [2, -2, 1.5],
        r"0 or 1 .*B, 3\]",
    ),
}
OTHERS = {
    "start_logits": np.zeros(BATCH, "int32"),
    "end_logits": np.zeros(BATCH, "int32"),
    "mlm_logits": TOKENS,
    "nsp_logits": np.zeros(BATCH, "int32"),
}


def compiled(make):
    model = make()
    model.compile("sgd", run_eagerly=True)
    return model


def labels_of(model, output, values):
    return {name: OTHERS[name] for name in model.output if name != output} | {output: values}


def with_value(sound, value):
    """The sound labels with one wrong value, in the last row."""
    labels = sound.astype(np.result_type(sound.dtype, type(value)) if isinstance(value, float) else "int64")
    labels[(BATCH - 1, *[0] * (labels.ndim - 1))] = value
    return labels


@pytest.mark.parametrize("case", CASES)
def test_arrays(case):
    make, batch, output, sound, wrong, message = CASES[case]
    model, batch = compiled(make), batch()
    before = [w.copy() for w in model.get_weights()]
    for value in wrong:
        labels = labels_of(model, output, with_value(sound, value))
        for call in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
            with pytest.raises(ValueError, match=f"expected the labels of `{output}` to be {message}") as error:
                call(batch, labels)
            assert f"Received: {value}" in str(error.value) and f"in row {BATCH - 1}" in str(error.value)
        with pytest.raises(ValueError, match=message):
            model.fit(batch, labels_of(model, output, sound), validation_data=(batch, labels), verbose=0)
    assert_arrays_equal(before, model.get_weights())
    loss = model.train_on_batch(batch, labels_of(model, output, sound), return_dict=True)["loss"]
    assert np.isfinite(loss)


# In arrays the others, too: above.
@pytest.mark.parametrize("case", slow_but(("class", "score"), ("class", "start", "end", "choice", "score", "token")))
def test_datasets(case):
    make, batch, output, sound, wrong, message = CASES[case]
    model = compiled(make)

    def dataset(values):
        return tf.data.Dataset.from_tensors((batch(), labels_of(model, output, values)))

    assert np.isfinite(model.fit(dataset(sound), verbose=0).history["loss"][0])
    for call in (model.fit, model.evaluate, lambda x, **k: model.fit(dataset(sound), validation_data=x, **k)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"expected the labels of `{output}` to be"):
            call(dataset(with_value(sound, wrong[0])), verbose=0)


@pytest.mark.parametrize(
    "case, jit", [("class", True), ("class", False), ("end", False), ("score", False), ("token", False)]
)
def test_compiled_steps_say_nan(case, jit):
    make, batch, output, sound, wrong, _ = CASES[case]
    model = compiled(make)
    loss, metrics = tf.function(model.default_loss()[output], jit_compile=jit), model.default_metrics()[output]
    outputs = model(batch())[output]
    for value in wrong:
        assert not np.isfinite(loss(tf.constant(with_value(sound, value)), outputs))
        for metric in metrics:
            metric.update_state(with_value(sound, value), outputs)
            result = float(metric.result())
            assert not np.isfinite(result) or (metric.name.endswith("accuracy") and result < 1.0)
            metric.reset_state()
    assert np.isfinite(loss(tf.constant(sound), outputs))


def test_a_wrong_label_is_no_hit():
    from kbert.optim.metrics import WeightedAccuracy

    metric = WeightedAccuracy()
    metric.update_state(np.array([7, -2, 0]), np.array([[9.0, 0.0]] * 3))  # read as 0 they would all be right
    assert float(metric.result()) == pytest.approx(1 / 3)


def test_minus_one_and_weight_zero_are_no_labels():
    model, batch = compiled(lambda: BertClassifier(small(), 3)), plain_batch()
    labels = np.array([0, -1, 2, 1, 7])
    weights = np.array([1.0, 1, 1, 1, 0])
    loss = model.test_on_batch(batch, labels, weights)[0]
    kept = [0, 2, 3]
    expected = model.test_on_batch({name: x[kept] for name, x in batch.items()}, labels[kept])[0]
    assert loss == pytest.approx(expected, rel=1e-5)
    assert np.isfinite(model.fit(batch, labels, sample_weight=weights, verbose=0).history["loss"][0])
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True)  # Keras' own ignores none
    with pytest.raises(ValueError, match="classes, 0 to 2"):
        model.fit(batch, labels, sample_weight=weights, verbose=0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model.compile("sgd", loss, run_eagerly=True)
    model.test_on_batch(batch, np.minimum(labels, 2), weights)


def test_an_absent_choice_is_no_label():
    model, batch = compiled(lambda: BertMultipleChoice(small())), choice_batch()
    labels = np.array([0, 1, 0, 1, 1])
    loss = model.test_on_batch(batch, labels, np.array([1.0, 1, 1, 1, 0]))[0]
    batch["padding_mask"][4, 1] = False
    with pytest.raises(ValueError, match="0 to 1 of choices that are there. Received: 1 in row 4; 1 of 5"):
        model.fit(batch, labels)
    labels[3] = -1
    assert np.isnan(model.default_loss()["logits"](labels, model(batch)["logits"]))
    labels[3] = 1
    assert model.test_on_batch(batch, labels, np.array([1.0, 1, 1, 1, 0]))[0] == pytest.approx(loss, rel=1e-5)


def test_strings_are_no_labels():
    model = compiled(lambda: BertClassifier(small(), 3))
    with pytest.raises(ValueError, match="Received: an array of <U3"):
        model.fit(plain_batch(), np.array(["pos"] * BATCH))


@pytest.mark.parametrize("loss", ["sparse_categorical_crossentropy", ["sparse_categorical_crossentropy"] * 2])
def test_losses_of_keras_by_name_or_in_a_list(loss):
    name = "sparse_categorical_crossentropy"
    classifier, span = BertClassifier(small(), 3), BertSpanExtractor(small())
    classifier.compile("sgd", [name] if isinstance(loss, list) else name, run_eagerly=True)
    with pytest.raises(ValueError, match="`logits` to be classes, 0 to 2"):
        classifier.fit(plain_batch(), np.array([1, 2, 3, 1, 2]))
    span.compile("sgd", loss if isinstance(loss, list) else dict.fromkeys(span.output, loss), run_eagerly=True)
    labels = {"start_logits": np.zeros(BATCH, "int32"), "end_logits": np.full(BATCH, LENGTH)}
    with pytest.raises(ValueError, match="`end_logits` to be classes, 0 to 6"):
        span.fit(plain_batch(), labels)


@pytest.mark.usefixtures("eagerly")
def test_labels_may_be_lists():
    model = BertClassifier(small(), 3)
    model.compile("sgd")
    batch, labels = plain_batch(), (np.arange(BATCH) % 3).tolist()
    expected = model.evaluate(batch, np.asarray(labels), verbose=0)
    assert model.evaluate(batch, labels, verbose=0) == expected
    assert model.evaluate({name: np.asarray(x).tolist() for name, x in batch.items()}, labels, verbose=0) == expected
    for y in (labels, {"logits": labels}):
        history = model.fit(batch, y, validation_data=(batch, y), class_weight={0: 2.0}, verbose=0).history
        assert np.isfinite(history["loss"][0]) and np.isfinite(history["val_loss"][0])
    with pytest.raises(ValueError, match="expected the labels of `logits` to be classes, 0 to 2"):
        model.fit(batch, [3] * BATCH, verbose=0)


def test_labels_of_another_shape_are_named():
    for make, batch, output, sound, _, _ in (CASES[name] for name in ("class", "tag", "several", "next")):
        model, batch = compiled(make), batch()
        for labels in (np.stack([sound, sound], -1), sound[..., 0] if sound.ndim > 1 else np.eye(BATCH)):
            with pytest.raises(ValueError, match=rf"`{output}` to be .*Received: labels of shape \(5,"):
                model.fit(batch, labels_of(model, output, labels))
    model = compiled(CASES["class"][0])
    model.test_on_batch(plain_batch(), CASES["class"][3][:, None])  # a column of classes


@pytest.mark.parametrize("texts", [["a text", "b"], np.array(["a text", "b"]), tf.constant(["a text", "b"])])
def test_strings_are_for_a_pipeline(texts):
    with pytest.raises(ValueError, match=r"BertClassifier: expected a batch of numbers.*strings, which kbert\.build"):
        BertClassifier(small(), 3)(texts)
