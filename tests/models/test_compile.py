"""`compile`: the model's own losses and metrics, and Keras' by name, which read the logits that models give."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.batches import BATCH, config, labels_of, plain_batch
from helpers.compare import assert_arrays_equal
from helpers.slow_but import slow_but
from helpers.wrong_values import wrong_inputs

from kbert.models.classifier import BertClassifier
from kbert.models.encoder import BertEncoder
from kbert.models.from_logits import losses_from_logits
from kbert.models.multiple_choice import BertMultipleChoice
from kbert.models.pretrainer import BertPretrainer
from kbert.models.regressor import BertRegressor
from kbert.models.span_extractor import BertSpanExtractor
from kbert.models.tagger import BertTagger
from kbert.optim.adamw import AdamW
from kbert.optim.metrics import CrossEntropy

SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
LABELS = labels_of((BATCH,), 3)
ONE_HOT = np.eye(3, dtype="float32")[LABELS]
MANY_HOT = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0]], "float32")


_TRAINED = {}  # by a loss: the model trained with it


def trained(make, labels, loss, **arguments):
    keras.utils.set_random_seed(1)
    model = make()
    model.compile(keras.optimizers.Adam(0.01), loss, run_eagerly=True, **arguments)
    history = model.fit(plain_batch(), labels, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history
    return model, history


def classifier(labels=3):
    return lambda: BertClassifier(config(num_layers=1), labels)


@pytest.mark.parametrize(
    "labels, loss, explicit",
    [
        (LABELS, "sparse_categorical_crossentropy", SPARSE),
        (LABELS, {"logits": "sparse_categorical_crossentropy"}, SPARSE),
        pytest.param(LABELS, ["sparse_categorical_crossentropy"], SPARSE, marks=pytest.mark.slow),
        pytest.param(LABELS, keras.losses.sparse_categorical_crossentropy, SPARSE, marks=pytest.mark.slow),
        pytest.param(LABELS, "SparseCategoricalCrossentropy", SPARSE, marks=pytest.mark.slow),
        (ONE_HOT, "categorical_crossentropy", keras.losses.CategoricalCrossentropy(from_logits=True)),
        (MANY_HOT, "binary_crossentropy", keras.losses.BinaryCrossentropy(from_logits=True)),
        pytest.param(
            ONE_HOT,
            "categorical_focal_crossentropy",
            keras.losses.CategoricalFocalCrossentropy(from_logits=True),
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_a_name_trains_as_the_loss_that_reads_logits(labels, loss, explicit):
    model, history = trained(classifier(), labels, loss)
    if id(explicit) not in _TRAINED:
        _TRAINED[id(explicit)] = trained(classifier(), labels, explicit)
    expected, expected_history = _TRAINED[id(explicit)]
    assert history["loss"] == expected_history["loss"] and history["loss"][-1] < history["loss"][0]
    assert_arrays_equal(model.get_weights(), expected.get_weights())


SPANS = {"start_logits": LABELS, "end_logits": LABELS}


@pytest.mark.parametrize(
    "make, labels, arguments",
    [
        (classifier(), LABELS, {}),
        pytest.param(
            classifier(), {"logits": LABELS}, {"optimizer": "adam", "metrics": ["accuracy"]}, marks=pytest.mark.slow
        ),
        pytest.param(classifier(), LABELS, {"optimizer": "adam", "metrics": ["accuracy"]}, marks=pytest.mark.slow),
        pytest.param(lambda: BertSpanExtractor(config(num_layers=1)), SPANS, {}, marks=pytest.mark.slow),
    ],
    ids=["classifier", "names", "an array of labels", "two outputs"],
)
def test_a_step_is_traced_once(monkeypatch, make, labels, arguments):
    """All variables exist before: TensorFlow traces a function that creates variables a second time."""
    model, traces, compute_loss = make(), [], keras.Model.compute_loss
    monkeypatch.setattr(
        keras.Model, "compute_loss", lambda *given, **more: traces.append(1) or compute_loss(*given, **more)
    )
    model.compile(**arguments)
    model.fit(plain_batch(), labels, batch_size=BATCH, epochs=2, verbose=0)
    assert len(traces) == 1
    model.evaluate(plain_batch(), labels, batch_size=BATCH, verbose=0)
    assert len(traces) == 2


def test_a_loss_of_probabilities_is_an_error():
    losses = keras.losses
    wrong_inputs(
        lambda loss: classifier()().compile("adam", loss),
        (losses.SparseCategoricalCrossentropy(), r"keras.losses.SparseCategoricalCrossentropy\(from_logits=True\)"),
        ({"logits": losses.CategoricalCrossentropy()}, r"CategoricalCrossentropy\(from_logits=True\)"),
        ([losses.BinaryCrossentropy()], r"BinaryCrossentropy\(from_logits=True\)"),
        ("kl_divergence", "kl_divergence compares probabilities"),
        (losses.KLDivergence(), "KLDivergence compares probabilities"),
        ("crossentropy", "expected one of .*'sparse_categorical_crossentropy'.*Received: 'crossentropy'"),
    )


def test_other_losses_are_left_as_they_are():
    mine = lambda y_true, y_pred: keras.ops.mean(y_pred)  # noqa: E731
    for loss in ("mse", mine, SPARSE, keras.losses.Hinge(), None):
        assert losses_from_logits(loss) is loss
    model = BertRegressor(config(num_layers=1))
    model.compile("adam", "mse", metrics=["mae"], run_eagerly=True)
    assert np.isfinite(model.test_on_batch(plain_batch(), np.zeros(BATCH))[0])


def test_metrics_by_name():
    model, _ = trained(
        classifier(),
        LABELS,
        "sparse_categorical_crossentropy",
        metrics=["accuracy", "sparse_categorical_crossentropy"],
        weighted_metrics={"logits": ["acc"]},
    )
    values = model.evaluate(plain_batch(), LABELS, verbose=0, return_dict=True)
    hits = np.argmax(np.asarray(model(plain_batch())["logits"]), axis=-1) == LABELS
    assert values["accuracy"] == values["acc"] == pytest.approx(hits.mean())
    assert values["sparse_categorical_crossentropy"] == pytest.approx(values["loss"], rel=1e-5)
    for metric in (keras.metrics.SparseCategoricalCrossentropy(), keras.metrics.AUC()):
        with pytest.raises(ValueError, match=r"keras.metrics.*from_logits=True"):
            model.compile("adam", SPARSE, metrics=[metric])
    model.compile("adam", SPARSE, metrics=[keras.metrics.SparseCategoricalCrossentropy(from_logits=True)])


def test_keras_metrics_with_a_threshold_have_it_at_the_logit_0():
    model = classifier(3)()
    model.layers[-1].dense.kernel.assign(np.zeros((12, 3)))
    model.layers[-1].dense.bias.assign([0.2, -0.2, 0.7])  # probabilities between 0.5 and 0.67, and below 0.5
    metrics = ["Recall", "precision", "TruePositives", keras.metrics.Recall(thresholds=0, name="same")]
    ranks = [keras.metrics.Recall(top_k=1, name="rank"), keras.metrics.F1Score(name="f1")]  # which need no threshold
    model.compile("adam", "binary_crossentropy", metrics=[*metrics, *ranks], run_eagerly=True)
    values = model.evaluate(plain_batch(), MANY_HOT, verbose=0, return_dict=True)
    is_on = np.tile([1, 0, 1], (BATCH, 1))
    hits = np.sum(is_on * MANY_HOT)
    found = {name: float(value) for name, value in values.items() if name not in ("f1", "loss")}
    expected = {"precision": hits / is_on.sum(), "TruePositives": hits, "rank": MANY_HOT[:, 2].sum() / MANY_HOT.sum()}
    assert found == pytest.approx(expected | dict.fromkeys(("Recall", "same"), hits / MANY_HOT.sum()))
    for metric in ("BinaryAccuracy", keras.metrics.binary_accuracy):
        model.compile("adam", "binary_crossentropy", metrics=[metric], run_eagerly=True)
        _, accuracy = model.evaluate(plain_batch(), MANY_HOT, verbose=0)
        assert accuracy == pytest.approx(np.mean(is_on == MANY_HOT))
    wrong_inputs(
        lambda metric: model.compile("adam", "binary_crossentropy", metrics=[metric]),
        (keras.metrics.Precision(), "Precision would compare with probabilities. Expected thresholds=0"),
        (keras.metrics.Recall(thresholds=[0.0, 0.7]), r"Expected thresholds=0.*Received: \[0.0, 0.7\]"),
        (keras.metrics.BinaryAccuracy(), "BinaryAccuracy would .*Expected threshold=0.*Received: 0.5"),
        (keras.metrics.F1Score(threshold=0.5), "F1Score would .*of the probabilities"),
        (keras.metrics.PrecisionAtRecall(0.5), "PrecisionAtRecall would .*of the probabilities"),
    )
    BertRegressor(config(num_layers=1)).compile("adam", "mse", metrics=[keras.metrics.BinaryAccuracy()])  # of scores


DEFAULTS = {  # by task: the model, its losses and its metrics
    "pretraining": (BertPretrainer, {"mlm_logits": "MaskedLanguageModelLoss", "nsp_logits": "NextSentenceLoss"}),
    "masked_lm": (lambda c: BertPretrainer(c, next_sentence=False), {"mlm_logits": "MaskedLanguageModelLoss"}),
    "next_sentence": (lambda c: BertPretrainer(c, masked_lm=False), {"nsp_logits": "NextSentenceLoss"}),
    "classification": (BertClassifier, {"logits": "ClassificationLoss"}),
    "tagging": (lambda c: BertTagger(c, 3), {"logits": "ClassificationLoss"}),
    "multiple_choice": (BertMultipleChoice, {"logits": "ClassificationLoss"}),
    "regression": (BertRegressor, {"score": "RegressionLoss"}),
    "span": (BertSpanExtractor, {"start_logits": "SpanLoss", "end_logits": "SpanLoss"}),
    "encoder": (BertEncoder, {}),
}


@pytest.mark.parametrize("task", DEFAULTS)
def test_every_model_knows_its_losses_and_metrics(task):
    make, expected = DEFAULTS[task]
    model = make(config(num_layers=1))
    assert model.task == task
    assert {name: type(loss).__name__ for name, loss in model.default_loss().items()} == expected
    assert model.default_metrics().keys() == expected.keys() and all(model.default_metrics().values())
    assert expected.keys() in (set(), set(model.output))


@pytest.mark.usefixtures("eagerly")
def test_compile_alone_trains_with_the_papers_optimizer(tmp_path):
    model = classifier()()
    model.compile()
    history = model.fit(plain_batch(), LABELS, epochs=2, verbose=0).history
    assert type(model.loss["logits"]).__name__ == "ClassificationLoss"
    assert isinstance(model.optimizer, AdamW) and float(model.optimizer.learning_rate) == np.float32(5e-5)
    assert history["loss"][1] < history["loss"][0] and set(history) == {"loss", "accuracy"}
    pretrainer = BertPretrainer(config(num_layers=1))
    pretrainer.compile()
    assert float(pretrainer.optimizer.learning_rate) == np.float32(1e-4)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.evaluate(plain_batch(), LABELS, verbose=0) == model.evaluate(plain_batch(), LABELS, verbose=0)
    assert int(again.optimizer.iterations) == 2


def test_a_saved_model_keeps_its_micro_batches(tmp_path):
    model = classifier()()
    model.compile(micro_batches=2)
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").micro_batches == 2


def test_a_saved_model_of_replicas_keeps_xla(monkeypatch):
    model = classifier()()
    for replicas in (True, False):
        monkeypatch.setattr("kbert.models.bert_model.has_replicas", lambda model, answer=replicas: answer)
        model.compile(jit_compile=True)
        assert model.compiles_gradient == replicas and model.get_compile_config()["jit_compile"] is True


def test_what_is_given_wins():
    def names(*arguments, **keywords):
        model = classifier()()
        model.compile(*arguments, run_eagerly=True, **keywords)
        return sorted(model.test_on_batch(plain_batch(), LABELS, return_dict=True))

    assert names("adam") == ["accuracy", "loss"]
    assert names("adam", metrics=["sparse_categorical_crossentropy"]) == ["loss", "sparse_categorical_crossentropy"]
    assert names(weighted_metrics={"logits": [CrossEntropy()]}) == ["cross_entropy", "loss"]
    assert names(weighted_metrics=None) == ["loss"]
    assert names("adam", "sparse_categorical_crossentropy") == ["loss"]
    model = classifier()()
    model.compile("adam", loss=None)
    with pytest.raises(ValueError, match="[Nn]o loss"):
        model.fit(plain_batch(), LABELS, verbose=0)


@pytest.mark.parametrize("run_eagerly", slow_but((True,), (True, False)))
def test_an_empty_dataset_of_unknown_length_is_named(run_eagerly):
    model = classifier()()
    model.compile(run_eagerly=run_eagerly)
    full = tf.data.Dataset.from_tensors((plain_batch(), LABELS))
    empty = full.filter(lambda *_: False)
    for call, name in (
        (lambda: model.fit(empty, verbose=0), "x"),
        (lambda: model.evaluate(empty, verbose=0), "x"),
        (lambda: model.fit(full, validation_data=empty, verbose=0), "validation_data"),
    ):
        with pytest.raises(ValueError, match=f"^BertClassifier: `{name}` must have at least one batch. Received: an e"):
            call()
    assert "val_loss" in model.fit(full, validation_data=full, verbose=0).history
