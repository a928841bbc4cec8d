"""pipeline.fit, as a Keras user calls it: strings, labels as strings or numbers, class weights, splits, callbacks."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.compare import assert_same_answers
from helpers.reused import reused
from helpers.slow_but import slow_but
from helpers.tiny_bert import tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs, wrong_values

import kbert
from kbert.training.run_log import RunLog

LABELS = ["bad", "good"]
TEXTS = ["good film", "bad film", "very good", "very bad"] * 4
NAMES = ["good", "bad", "good", "bad"] * 4
IDS = [1, 0, 1, 0] * 4


@functools.cache
def build():
    keras.utils.set_random_seed(0)
    config = tiny_config(num_layers=1, hidden_dropout=0.0, attention_dropout=0.0, initializer_stddev=0.2)
    pipeline = kbert.build_pipeline(kbert.BertClassifier(config), tiny_tokenizer(), labels=LABELS, sequence_length=7)
    pipeline.compile(kbert.AdamW(0.01), run_eagerly=True)
    return pipeline


def compiled_model():
    return build().model


def make():
    """The same pipeline each time, as it is when it is new."""
    reused(compiled_model)
    return build()


def weights_after(x, y=None, **arguments):
    pipeline = make()
    pipeline.fit(x, y, **{"epochs": 1, "verbose": 0, "shuffle": False, "batch_size": 16, **arguments})
    return pipeline.model.get_weights()


def same(one, other):
    return all(np.allclose(a, b, atol=1e-6) for a, b in zip(one, other, strict=True))


@functools.cache
def weights_after_numbers():
    return weights_after(TEXTS, np.array(IDS))


def of_some_forms_and_of_all(some, every):
    """Two runs of a test: over some forms of its input, and, slow, over all."""
    return [pytest.param(some, id="some"), pytest.param(every, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize(
    "forms, in_datasets",
    [
        pytest.param([NAMES, {"logits": NAMES}], [NAMES], id="some"),
        pytest.param(
            [NAMES, np.array(NAMES), IDS, {"logits": NAMES}, {"logits": np.array(IDS)}, tf.constant(NAMES)],
            [NAMES, {"logits": NAMES}, IDS, {"logits": IDS}],
            id="all",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_label_strings_are_numbers_in_every_form(forms, in_datasets):
    expected = weights_after_numbers()
    for y in forms:
        assert same(weights_after(TEXTS, y), expected), type(y)
    for y in in_datasets:
        data = tf.data.Dataset.from_tensor_slices((TEXTS, y)).batch(16)
        assert same(weights_after(data, batch_size=None), expected)


def test_weights_in_lists_are_those_in_arrays():
    weights = [0.0, 1.0, 2.0, 3.0] * 4

    def results(given):
        pipeline = make()
        options = {"sample_weight": given, "validation_split": 0.25, "shuffle": False, "verbose": 0}
        history = pipeline.fit(TEXTS, NAMES, **options).history
        pipeline.train_on_batch(TEXTS, NAMES, given)
        return [history["val_loss"][0], pipeline.test_on_batch(TEXTS, NAMES, given)[0]]

    assert results(weights) == results(np.array(weights)) != results(None)


WEIGHT = {"good": 3.0, "bad": 0.5}
SOME_WEIGHTS = [(NAMES, WEIGHT), (IDS, {1: 3.0, 0: 0.5})]
ALL_WEIGHTS = [(y, weight) for y in (NAMES, IDS, {"logits": IDS}) for weight in (WEIGHT, {1: 3.0, 0: 0.5})]


@pytest.mark.parametrize("forms", of_some_forms_and_of_all(SOME_WEIGHTS, ALL_WEIGHTS))
def test_class_weights_are_sample_weights(forms):
    weight = WEIGHT
    expected = weights_after(TEXTS, np.array(IDS), sample_weight=np.where(IDS, 3.0, 0.5))
    assert not same(weights_after_numbers(), expected)
    for y, given in forms:
        assert same(weights_after(TEXTS, y, class_weight=given), expected)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, {"logits": NAMES})).batch(16)
    assert same(weights_after(data, batch_size=None, class_weight=weight), expected)
    halved = weights_after(TEXTS, {"logits": IDS}, class_weight={1: 6.0}, sample_weight={"logits": np.full(16, 0.5)})
    assert same(halved, expected)
    pipeline = make()
    batch = {name: np.asarray(value) for name, value in pipeline.preprocessor(TEXTS).items()}
    pipeline.model.fit(
        batch, {"logits": np.array(IDS)}, class_weight={1: 3.0, 0: 0.5}, shuffle=False, batch_size=16, verbose=0
    )
    assert same(pipeline.model.get_weights(), expected)
    pipeline = make()
    pipeline.train_on_batch(TEXTS, NAMES, class_weight=weight)
    assert same(pipeline.model.get_weights(), expected)


def test_a_number_that_may_be_a_label_is_no_label():
    stars = kbert.build_pipeline(make().model, tiny_tokenizer(), labels=["1", "3"], sequence_length=7)
    for call in (stars.fit, stars.evaluate, stars.train_on_batch, stars.test_on_batch):
        with pytest.raises(ValueError, match="Pipeline: row 1: expected the labels as strings.* 3 is not that of the"):
            call(TEXTS[:4], [0, 3, 1, 3])
    with pytest.raises(ValueError, match="a number is a class from 0, and 1 is not that of the label '1'"):
        stars.fit(TEXTS[:4], [0, 0, 0, 0], validation_data=(TEXTS[:4], [0, 0, 0, 1]), verbose=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[1, 3\] are labels of other classes"):
        stars.evaluate(tf.data.Dataset.from_tensors((TEXTS[:4], [0, 3, 1, 3])), verbose=0)


def test_windows_with_labels_that_are_numbers_are_split_as_they_are_given():
    options = {"labels": ["1", "2"], "sequence_length": 7, "window_pooling": "mean", "doc_stride": 5}
    stars = kbert.build_pipeline(make().model, tiny_tokenizer(), **options)
    history = stars.fit(TEXTS, [str(n + 1) for n in IDS], validation_split=0.5, class_weight={"2": 2.0}, verbose=0)
    assert "val_loss" in history.history


WATCHERS = (keras.callbacks.EarlyStopping, keras.callbacks.ReduceLROnPlateau)


@pytest.mark.parametrize("watch", slow_but(WATCHERS[:1], WATCHERS))
def test_callbacks_watch_the_default_metrics(watch):
    for name in ("accuracy", "val_accuracy"):
        callback = watch(name)
        make().fit(TEXTS[:4], IDS[:4], validation_data=(TEXTS[:4], IDS[:4]), callbacks=callback, verbose=0)
        assert callback.monitor_op is keras.ops.greater


def test_callbacks_see_the_pipeline(tmp_path):
    """What `ModelCheckpoint` writes is the pipeline and its weights."""
    pipeline = make()
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="val_accuracy", save_best_only=True),
        keras.callbacks.ModelCheckpoint(tmp_path / "last.weights.h5", save_weights_only=True),
    ]
    pipeline.fit(TEXTS[:4], NAMES[:4], validation_data=(TEXTS[:4], NAMES[:4]), callbacks=callbacks, verbose=0)
    assert callbacks[0].model is pipeline
    expected = pipeline.predict(TEXTS[:4], verbose=0)
    loaded = keras.models.load_model(tmp_path / "best.keras")
    assert isinstance(loaded, kbert.Pipeline) and loaded.answers.labels == tuple(LABELS)
    assert_same_answers(loaded.predict(TEXTS[:4], verbose=0), expected)
    pipeline.set_weights([0 * weight for weight in pipeline.get_weights()])
    pipeline.load_weights(tmp_path / "last.weights.h5")
    assert_same_answers(pipeline.predict(TEXTS[:4], verbose=0), expected)
    seen = keras.callbacks.LambdaCallback(on_test_end=lambda logs: None)
    pipeline.evaluate(TEXTS[:4], NAMES[:4], callbacks=[seen], verbose=0)
    assert seen.model is pipeline


def test_callbacks_change_the_training():
    pipeline = make()
    stop = keras.callbacks.EarlyStopping("learning_rate", mode="max", patience=1, restore_best_weights=True)
    after_one_epoch = []
    keep = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: after_one_epoch.append(pipeline.model.get_weights()))
    rate = keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (epoch + 1))
    history = pipeline.fit(TEXTS, NAMES, epochs=5, callbacks=[keep, rate, stop], verbose=0).history
    assert len(history["loss"]) == 2 and history["learning_rate"] == pytest.approx([0.01, 0.005])
    assert same(pipeline.model.get_weights(), after_one_epoch[0])


def test_a_backup_is_restored(tmp_path):
    def fit(pipeline, *callbacks):
        callbacks = [keras.callbacks.BackupAndRestore(tmp_path / "backup"), *callbacks]
        pipeline.fit(TEXTS, NAMES, epochs=3, callbacks=callbacks, shuffle=False, verbose=0)
        return pipeline.model.get_weights()

    def fail(epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt

    expected = weights_after(TEXTS, NAMES, epochs=3, batch_size=None)
    with pytest.raises(KeyboardInterrupt):
        fit(make(), keras.callbacks.LambdaCallback(on_epoch_begin=fail))
    epochs = []
    again = fit(make(), keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: epochs.append(epoch)))
    assert epochs == [1, 2] and same(again, expected)


def test_our_own_callbacks_see_the_model(tmp_path, caplog):
    caplog.set_level("INFO", logger="kbert")
    board = kbert.inspection.TensorBoard(tmp_path)
    make().fit(TEXTS[:4], NAMES[:4], callbacks=[board, RunLog()], verbose=0)
    assert board.model is make().model and "step 1" in caplog.text and "accuracy" in caplog.text
    assert any((tmp_path / "train").iterdir())


@functools.cache
def several():
    """A pipeline of a multi-label classifier."""
    keras.utils.set_random_seed(0)
    model = kbert.BertClassifier(tiny_config(num_layers=1), 3, multi_label=True)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b", "c"], sequence_length=7)
    pipeline.compile(kbert.AdamW(0.01), run_eagerly=True)
    return pipeline


def several_model():
    return several().model


LISTS = [["a", "c"], ["b"], [], ["c", "b"]]
IS_ON = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1]])
RAGGED = tf.ragged.constant(LISTS)


TUPLES = [tuple(labels) for labels in LISTS]
DENSE = RAGGED.to_tensor("")


@pytest.mark.parametrize(
    "forms, in_datasets",
    [
        pytest.param([LISTS, RAGGED], [RAGGED], id="some"),
        pytest.param(
            [LISTS, TUPLES, {"logits": LISTS}, np.array(LISTS, object), RAGGED, DENSE, IS_ON.tolist()],
            [RAGGED, {"logits": RAGGED}, DENSE, IS_ON],
            id="all",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_lists_of_label_strings_of_a_multi_label_model(forms, in_datasets):
    reused(several_model)
    pipeline, texts = several(), TEXTS[:4]
    expected = pipeline.evaluate(texts, IS_ON, verbose=0, return_dict=True)
    for y in forms:
        assert pipeline.evaluate(texts, y, verbose=0, return_dict=True) == pytest.approx(expected)
    for y in in_datasets:
        data = tf.data.Dataset.from_tensor_slices((texts, y)).batch(2)
        assert pipeline.evaluate(data, verbose=0, return_dict=True) == pytest.approx(expected, rel=1e-4)
    assert pipeline.test_on_batch(texts, LISTS, return_dict=True) == pytest.approx(expected)
    history = pipeline.fit(texts, LISTS, validation_data=(texts, LISTS), verbose=0).history
    after = pipeline.evaluate(texts, IS_ON, verbose=0, return_dict=True)
    assert history["val_loss"] == [pytest.approx(after["loss"])] and after["loss"] != expected["loss"]
    pipeline.train_on_batch(texts, LISTS)
    assert pipeline.test_on_batch(texts, [[], [], [], []], return_dict=True)["loss"] > 0
    windows = kbert.build_pipeline(
        pipeline.model, tiny_tokenizer(), labels=["a", "b", "c"], sequence_length=7, window_pooling="max", doc_stride=5
    )
    windows.fit(["good film " * 4, *texts[1:]], LISTS, verbose=0)


def test_wrong_labels_of_a_multi_label_model():
    wrong_inputs(
        lambda y: several().fit(TEXTS[:2], y, verbose=0),
        ([["a"], ["d"]], r"row 1: expected one of the labels \['a', 'b', 'c'\]. Received: 'd'"),
        (["a", "b"], r"row 0: expected a list of the labels \['a', 'b', 'c'\]. Received: 'a'"),
        (tf.constant(["a", "b"]), r"expected a list of labels for each row. Received: strings \(2,\)"),
        ([0, 2], r"`logits` to be 0 or 1 for each label of a text, \[B, 3\]. Received: labels of shape \(2,\)"),
        ([[0, 1], [1, 1]], r"0 or 1 for each label of a text, \[B, 3\]. Received: labels of shape \(2, 2\)"),
        ([[0, 1, 1], [1, 1, 2]], r"0 or 1 for each label of a text, \[B, 3\]. Received: 2 in row 1; 1 of 6"),
        ([[0, 1, 1], [1]], r"expected labels as numbers \[B, ...\]. Received: rows of unequal lengths"),
    )
    with pytest.raises(ValueError, match="one of the labels .* Received: \\['good', 'bad'\\]"):
        make().fit(TEXTS[:2], [["good", "bad"], ["good"]], verbose=0)
    data = tf.data.Dataset.from_tensors((TEXTS[:2], [[0, 1], [1, 1]]))
    with pytest.raises(ValueError, match=r"\[B, 3\]. Received: labels of shape \(2, 2\)"):
        several().fit(data, verbose=0)


def test_wrong_labels_and_weights_are_named():
    wrong_values(
        lambda **arguments: make().fit(TEXTS[:4], verbose=0, **arguments),
        ({"y": ["good", "nice", "bad", "bad"]}, "row 1: expected one of the labels .*'good'.*: 'nice'"),
        ({"y": ["good", None, "bad", "bad"]}, "row 1: expected one of the labels .* Received: None"),
        ({"y": IDS[:4], "class_weight": {"fine": 1.0}}, "`class_weight` for the labels .* Received: 'fine'"),
        ({"y": IDS[:4], "class_weight": np.array([1.0, 3.0])}, r"Received: array.* as dict\(enumerate\(factors\)\)"),
        ({"y": np.eye(4, 2), "class_weight": {1: 2.0}}, r"`class_weight` is for .* one label each.*shape \(4, 2\)"),
    )
    message = "classes, 0 to 1, or of a pipeline its label strings. Received: 5 in row 3"
    for call in (make().fit, make().evaluate):
        with pytest.raises(ValueError, match=message):
            call(TEXTS[:4], [1, 0, 1, 5])


def test_labels_that_a_dataset_has_wrong_and_labels_of_a_model_without():
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected one of the labels"):
        make().fit(tf.data.Dataset.from_tensors((TEXTS[:2], ["good", "nice"])), verbose=0)
    regressor = kbert.build_pipeline(kbert.BertRegressor(tiny_config(num_layers=1)), tiny_tokenizer())
    regressor.compile()
    with pytest.raises(ValueError, match="this model has no labels. Received: 'good'"):
        regressor.fit(TEXTS, NAMES)
    with pytest.raises(ValueError, match="`class_weight` is for models with one output for classes"):
        regressor.fit(TEXTS, np.array(IDS, "float32"), class_weight={0: 1.0})


def make_windows():
    """The model of `make()` in a pipeline that cuts long texts into windows."""
    options = {"labels": LABELS, "sequence_length": 7, "window_pooling": "mean", "doc_stride": 5}
    return kbert.build_pipeline(make().model, tiny_tokenizer(), **options)


def test_balanced_classes_weigh_the_same_in_windows():
    texts, labels = ["good film " * 4, "bad film"], ["good", "bad"]
    factors = {"good": 3 / 4, "bad": 3 / 2}  # of two windows and of one
    weights = []
    for class_weight in ("balanced", factors):
        pipeline = make_windows()
        pipeline.fit(texts, labels, class_weight=class_weight, epochs=1, verbose=0, shuffle=False)
        weights.append(pipeline.model.get_weights())
    assert same(*weights)


def test_batches_are_as_long_as_their_longest_text(monkeypatch):
    texts = ["good", "very bad film"] * 8
    pipeline = kbert.build_pipeline(make().model, tiny_tokenizer(), labels=LABELS, sequence_length=16)
    lengths = []

    def step(data, method):
        lengths.append(data[0]["token_ids"].shape[1])
        return method(data)

    for name in ("train_step", "test_step"):
        method = getattr(pipeline.model, name)
        monkeypatch.setattr(pipeline.model, name, functools.partial(step, method=method))
    pipeline.model.make_train_function(force=True)  # other tests have used the model
    pipeline.model.make_test_function(force=True)
    pipeline.fit(texts, NAMES, batch_size=8, verbose=0, validation_split=0.5)
    assert lengths == [8, 8]
    del lengths[:]
    pipeline.evaluate(texts, NAMES, batch_size=8, verbose=0)
    assert lengths == [8, 4]  # the longest first
    data = tf.data.Dataset.from_tensor_slices((texts, NAMES)).batch(8)
    inputs, labels = next(iter(pipeline.batches(data)))
    assert inputs["token_ids"].shape == (8, 8) and labels.numpy().tolist() == [1, 0] * 4
    monkeypatch.setattr(pipeline.model, "compiles_gradient", True)  # XLA: one of a few lengths
    assert next(iter(pipeline.batches(data)))[0]["token_ids"].shape == (8, 16)
    for y, weights in ((["good"] * 3, None), (NAMES, np.ones(3))):
        with pytest.raises(ValueError, match="a label and a weight for each of 16 texts. Received: 3"):
            pipeline.fit(texts, y, sample_weight=weights, verbose=0)
