"""Exports in int8: the product, the ranges, what the files contain, and how their answers differ from float32."""

import csv
import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.c_api import ask
from helpers.compare import assert_same_answers
from helpers.served_models import KINDS, make_pipeline
from helpers.slow_but import slow_but
from helpers.tiny_bert import TEXTS, randomise, tiny_config, tiny_tokenizer
from tensorflow.core.protobuf import saved_model_pb2

import kbert
from kbert.commands.serving import export as export_command
from kbert.errors import SetupError
from kbert.models.average import average_models
from kbert.serving import int8, int8_export
from kbert.serving.calibration import calibration_rows, int8_pipeline
from kbert.serving.int8 import Int8Product, _product, _smoothed, encoder_blocks, row_lengths

_GELU = {"GeluExact": False, "GeluApproximate": True}


def _numbers(rows=7, inputs=40, units=24, seed=0):
    """(x [n, H], kernel [H, u], bias [u])"""
    random = np.random.default_rng(seed)
    shapes = (rows, inputs), (inputs, units), (units,)
    return [random.normal(size=shape).astype("float32") for shape in shapes]


def _quantized_product(x, kernel, bias, low, high):
    """What the op computes, in integers: x in 256 steps from `low` to `high`, each column of W in 127 each way."""
    step = (high - low) / 255
    low, high = step * round(low / step), step * round(low / step) + 255 * step  # 0 is one of the values
    x_steps = np.clip(np.rint((x - low) / step), 0, 255)
    column = np.maximum(np.abs(kernel).max(axis=0), 1e-9) / 127
    product = x_steps @ np.rint(kernel / column) * step + low * np.rint(kernel / column).sum(axis=0)
    return product * column + bias


@pytest.mark.parametrize("activation", [None, "GeluExact", "GeluApproximate", "Relu", "Tanh"])
def test_a_product_is_that_of_8_bit_integers(activation):
    x, kernel, bias = _numbers()
    kernel[:, 3] *= 50  # each column has its own scale
    kernel[:, 5] = 0.0
    low, high = float(x.min()), float(x.max())
    product = tf.function(Int8Product(kernel, bias, (low, high), activation), autograph=False)
    found = product(tf.constant(x)).numpy()
    expected = _quantized_product(x, kernel, bias, low, high)
    exact = x @ kernel + bias
    if activation in _GELU:
        expected, exact = (tf.nn.gelu(each, approximate=_GELU[activation]).numpy() for each in (expected, exact))
    elif activation:
        function = {"Relu": tf.nn.relu, "Tanh": tf.tanh}[activation]
        expected, exact = (function(each).numpy() for each in (expected, exact))
    one_step = (high - low) / 255 * np.abs(kernel).max(axis=0)  # where x lies between two steps, rounding may differ
    assert (np.abs(found - expected) <= 1.01 * one_step + 1e-4).all()
    assert np.median(np.abs(found - expected)) < 1e-4
    assert 1e-4 < np.abs(found - exact)[:, [0, 1, 2, 4]].max() < 0.5


def test_values_outside_of_the_range_are_clipped():
    kernel, bias = np.eye(16, dtype="float32"), np.zeros(16, "float32")
    product = tf.function(Int8Product(kernel, bias, (-1.0, 2.0)), autograph=False)
    x = np.linspace(-9.0, 9.0, 16, dtype="float32")
    np.testing.assert_allclose(product(x[None]).numpy()[0], np.clip(x, -1.0, 2.0), atol=0.02)


def test_0_is_exact():
    """The first 1.1 steps of this range are below 0. Rounded to them, 0 would be -0.017."""
    _, kernel, bias = _numbers()
    product = tf.function(Int8Product(kernel, bias, (-0.17, 38.86)), autograph=False)
    np.testing.assert_allclose(product(tf.zeros((3, 40))).numpy(), np.tile(bias, (3, 1)), atol=1e-4)


def test_an_input_that_is_always_0_leaves_the_bias():
    _, kernel, bias = _numbers()
    product = tf.function(Int8Product(kernel, bias, (0.0, 0.0)), autograph=False)
    np.testing.assert_allclose(product(tf.zeros((3, 40))).numpy(), np.tile(bias, (3, 1)), atol=1e-4)


def test_large_inputs_of_a_feed_forward_product_leave_steps_to_the_others():
    """In trained models a few are 30 times as large as the others."""
    x, kernel, bias = _numbers(rows=200)
    x[:, 0] *= 30
    dense = SimpleNamespace(kernel=tf.constant(kernel), bias=tf.constant(bias))
    bounds = x.min(axis=0), x.max(axis=0)
    products = [tf.function(make(dense, bounds), autograph=False) for make in (_product, _smoothed)]
    errors = [product(tf.constant(x)).numpy() - (x @ kernel + bias) for product in products]
    plain, smoothed = (float(np.sqrt(np.mean(error**2))) for error in errors)
    assert smoothed < plain / 4 and smoothed < 0.3


def test_an_input_that_was_0_while_calibrating_still_counts():
    x, kernel, bias = _numbers(rows=200)
    least, most = x.min(axis=0), x.max(axis=0)
    least[5] = most[5] = 0.0
    x[:, 5] = 0.4
    dense = SimpleNamespace(kernel=tf.constant(kernel), bias=tf.constant(bias))
    product = tf.function(_smoothed(dense, (least, most)), autograph=False)
    np.testing.assert_allclose(product(tf.constant(x)), x @ kernel + bias, atol=0.5)
    without = np.delete(x, 5, axis=1) @ np.delete(kernel, 5, axis=0) + bias
    assert np.abs(without - (x @ kernel + bias)).max() > 0.8


def test_the_numbers_of_rows_share_weights_and_give_the_same_bits():
    x, kernel, bias = _numbers(rows=300)
    product = tf.function(
        Int8Product(kernel, bias, (-4.0, 4.0)), input_signature=[tf.TensorSpec((None, 40))], autograph=False
    )
    whole = product(x).numpy()
    for rows in (0, 1, 2, 7, 8, 33, 256, 300):
        np.testing.assert_array_equal(product(x[:rows]), whole[:rows])


def test_lengths_of_rows_are_few():
    """The op keeps about 1,024 products ready for each thread, one for each layer and number of rows."""
    for layers, most in ((2, 32), (6, 32), (12, 20), (24, 20)):
        encoder = kbert.BertEncoder(tiny_config(num_layers=layers, max_sequence_length=512))
        lengths = row_lengths(encoder)
        assert lengths[0] == 8 and lengths[-1] == 512 and len(lengths) <= most
        assert list(lengths) == sorted(set(lengths)) and not any(length % 8 for length in lengths)
        wasted = [next(each for each in lengths if each >= n) / n for n in range(32, 513)]
        assert max(wasted) < 1.28


def _classifier(**options):
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1, max_sequence_length=64), num_labels=3), scale=0.3)
    return kbert.build_pipeline(model, tiny_tokenizer(), **({"labels": ["bad", "good", "odd"]} | options))


def test_rows_of_200_lengths_make_products_of_few_shapes(monkeypatch):
    model = kbert.BertEncoder(tiny_config(num_layers=1, max_sequence_length=256))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), sequence_length=256)
    quantized = int8_pipeline(pipeline, TEXTS)
    seen = tf.Variable(tf.zeros(300, tf.int32))
    attention = quantized.model.blocks[0].attention
    product = attention.output_projection

    def counting(x, training=False):
        seen.scatter_nd_add([[tf.shape(x)[0]]], [1])
        return product(x)

    attention.output_projection = counting
    for length in range(1, 201):
        quantized.predict_on_batch([" ".join(["film"] * length)])
    shapes = set(np.flatnonzero(seen.numpy()).tolist())
    assert shapes <= set(row_lengths(model)) and len(shapes) <= 24 and sum(seen.numpy()) == 200


_SOME = slow_but(("single", "encoder"), tuple(KINDS))


@pytest.mark.parametrize("kind", _SOME)
def test_every_kind_of_model_is_exported(kind, tmp_path):
    pipeline, columns = make_pipeline(kind)
    before = [weight.numpy() for weight in pipeline.model.weights]
    plain = pipeline.predict(columns, verbose=0)
    path = kbert.export(pipeline, tmp_path / "int8", precision="int8", calibration=columns)
    served = tf.saved_model.load(str(path))
    answers = served.signatures["serving_default"](**{name: tf.constant(each) for name, each in columns.items()})
    copied = int8_pipeline(pipeline, columns).predict(columns, verbose=0)
    for name, value in answers.items():
        value = value.numpy()
        if value.dtype == object:
            assert np.mean(kbert.preprocessing.strings.as_text(value) == copied[name]) > 0.9
        else:
            np.testing.assert_allclose(value, copied[name], atol=0.02)
    card = json.loads((path / "card.json").read_text("utf-8"))
    assert card["precision"] == "int8" and card["servers"]["tensorflow_model_server"] == "2.17 and later"
    assert card["int8"]["rows"] == len(next(iter(columns.values())))
    report = kbert.audit(path)
    assert not report.problems and report.oldest_server == "2.17"
    assert list(report.lines())[-1] == "  A stock tensorflow_model_server 2.17 or later on x86-64 runs it."
    assert report.ops["_QuantizedMatMul"] % (4 * pipeline.model.config.num_layers) == 0
    assert report.ops["QuantizeV2"] == report.ops["_QuantizedMatMul"]
    for weight, value in zip(pipeline.model.weights, before, strict=True):  # the model stays as it is
        np.testing.assert_array_equal(weight.numpy(), value)
    assert_same_answers(pipeline.predict(columns, verbose=0), plain)


def _inputs_of_products(path):
    """The ops that make the inputs of every int8 product of an export, but its quantized rows: list of lists."""
    graph = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    functions = {function.signature.name: function for function in graph.library.function}

    def source(nodes, name):
        """The op of the node that makes a tensor, through Identity and functions of the library."""
        node, output = nodes[name.split(":")[0]], name.split(":")[-1]
        while node.op in ("PartitionedCall", "StatefulPartitionedCall", "Identity"):
            if node.op == "Identity":
                return source(nodes, node.input[0])
            if len(node.input):
                return node.op
            called = functions[node.attr["f"].func.name]
            inner = {each.name: each for each in called.node_def}
            result = called.signature.output_arg[int(output)].name
            return source(inner, called.ret[result])
        return node.op

    found = []
    for function in functions.values():
        nodes = {node.name: node for node in function.node_def}
        nodes |= {arg.name: arg for arg in function.signature.input_arg}
        for node in function.node_def:
            if node.op == "_QuantizedMatMul":
                found.append([source(nodes, name) for name in node.input if ":" in name][1:])
    return found


def test_weights_bias_and_ranges_are_constants_of_the_graph(tmp_path):
    """The kernel caches what it makes of them: with values that vary it would give wrong results without an error."""
    pipeline = _classifier()
    for frozen in (False, True):
        path = kbert.export(pipeline, tmp_path / "int8", precision="int8", calibration=TEXTS, frozen_weights=frozen)
        inputs = _inputs_of_products(path)
        assert len(inputs) == 2 * 4  # serving_default and classify, one block
        assert all(each == ["Const"] * 6 for each in inputs)


def _with_lora():
    pipeline = _classifier()
    pipeline.model.enable_lora(2)
    random = np.random.default_rng(0)
    for weight in pipeline.model.trainable_variables:
        weight.assign(0.1 * random.normal(size=weight.shape))
    return pipeline


def _multi_label():
    model = kbert.BertClassifier(tiny_config(num_layers=1, activation="silu"), num_labels=2, multi_label=True)
    return kbert.build_pipeline(randomise(model, scale=0.3), tiny_tokenizer(), labels=["bad", "odd"])


def _ensemble():
    models = [randomise(kbert.BertClassifier(tiny_config(num_layers=1)), seed, scale=0.3) for seed in (1, 2)]
    return kbert.build_pipeline(average_models(models), tiny_tokenizer())


def _entities():
    model = randomise(kbert.BertTagger(tiny_config(num_layers=1), num_labels=3), scale=0.3)
    return kbert.build_pipeline(model, tiny_tokenizer(), labels=["O", "B-LOC", "I-LOC"], tagging_output="entities")


def _windows():
    return _classifier(window_pooling="mean", doc_stride=4, sequence_length=12)


_MADE = slow_but((_with_lora, _ensemble), (_with_lora, _ensemble, _multi_label, _entities, _windows))


@pytest.mark.parametrize("make", _MADE)
def test_lora_ensembles_several_labels_entities_and_windows(make, tmp_path):
    pipeline = make()
    texts = [*TEXTS, "the film is good " * 9]
    plain = pipeline.predict(texts, verbose=0)
    path = kbert.export(pipeline, tmp_path / "int8", precision="int8", calibration={"text": texts})
    served = tf.saved_model.load(str(path))
    answers = {name: each.numpy() for name, each in served.signatures["serving_default"](tf.constant(texts)).items()}
    copied = int8_pipeline(pipeline.merged(), texts).predict(texts, verbose=0)
    assert answers.keys() == plain.keys()
    if "probabilities" in plain:
        np.testing.assert_allclose(answers["probabilities"], copied["probabilities"], atol=0.02)
        assert 1e-6 < np.abs(answers["probabilities"] - plain["probabilities"]).max() < 0.1
    blocks = len(encoder_blocks(pipeline.model))
    assert blocks == (2 if make is _ensemble else 1)
    assert kbert.audit(path).ops["_QuantizedMatMul"] % (4 * blocks) == 0
    assert "agreement" in json.loads((path / "card.json").read_text("utf-8"))["int8"]


def test_an_export_answers_alone_in_a_batch_in_threads_and_in_a_new_process(tmp_path):
    pipeline = _classifier()
    path = kbert.export(pipeline, tmp_path / "int8", precision="int8", calibration=TEXTS)
    texts = [" ".join(["the film is never good"] * n) for n in range(1, 13)]
    program = """
import sys
import numpy as np, tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
np.save(sys.argv[2], serve(text=tf.constant(sys.argv[3:]))["probabilities"].numpy())
"""
    file = tmp_path / "answers.npy"
    subprocess.run([sys.executable, "-P", "-c", program, str(path), str(file), *texts], check=True)
    expected = np.load(file)
    served = tf.saved_model.load(str(path))
    serve = served.signatures["serving_default"]
    answers = {}

    def call(number):
        answers[number] = [serve(tf.constant([text]))["probabilities"].numpy()[0] for text in texts]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]  # all from the first call on
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        np.testing.assert_array_equal(answers[number], expected)
    np.testing.assert_array_equal(serve(tf.constant(texts))["probabilities"], expected)


@pytest.mark.parity  # it needs a compiler, as test_c_api.py does
def test_an_export_answers_without_python(program, tmp_path):
    path = kbert.export(_classifier(), tmp_path / "int8", precision="int8", calibration=TEXTS)
    (answer,) = ask(program, path, [("serving_default", {"text": np.array(TEXTS, dtype=object)})])
    served = tf.saved_model.load(str(path))
    expected = served.signatures["serving_default"](tf.constant(TEXTS))
    np.testing.assert_allclose(answer["probabilities"], expected["probabilities"], atol=1e-6)


def _write_csv(path, **columns):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, number):
        return {"text": TEXTS[number::2]}


def test_calibration_in_memory_and_from_files(tmp_path):
    pipeline = _classifier()
    (tmp_path / "texts.txt").write_text("\n".join(text for text in TEXTS if text), encoding="utf-8")
    _write_csv(tmp_path / "texts.csv", text=TEXTS, n=range(len(TEXTS)))
    dataset = tf.data.Dataset.from_tensor_slices({"text": TEXTS}).batch(3)
    for texts in (TEXTS, {"text": TEXTS}, dataset, Batches(), iter(dataset), tmp_path / "texts.csv"):
        _, report = int8_export.int8_export(pipeline, texts)
        assert report["rows"] == len(TEXTS) and report["probability_difference"] < 0.1
    _, report = int8_export.int8_export(pipeline, str(tmp_path / "texts.txt"))
    assert report["rows"] == len(TEXTS) - 1


def test_a_shuffled_dataset_is_read_only_once():
    """Read again, it has another order, and answers of different texts would be compared."""
    texts = tf.data.Dataset.from_tensor_slices({"text": TEXTS * 10})
    _, expected = int8_export.int8_export(_classifier(), texts.batch(4))
    _, report = int8_export.int8_export(_classifier(), texts.shuffle(40).batch(4))
    assert report == expected
    pipeline, _ = make_pipeline("multiple_choice")
    batches = [{"prompt": ["the film"], "choices": [choices]} for choices in (["good"], ["bad", "never", "a film"])]
    spec = {"prompt": tf.TensorSpec([None], tf.string), "choices": tf.TensorSpec([None, None], tf.string)}
    rows = calibration_rows(pipeline, tf.data.Dataset.from_generator(lambda: batches, output_signature=spec))
    assert pipeline.columns(rows)["choices"].numpy().tolist() == [[b"good", b"", b""], [b"bad", b"never", b"a film"]]
    with pytest.raises(ValueError, match="Received: an empty dataset"):
        calibration_rows(_classifier(), texts.batch(4).filter(lambda batch: False))
    with pytest.raises(ValueError, match="`calibration` is a dataset without an end"):
        calibration_rows(_classifier(), texts.batch(4).repeat())


@pytest.mark.parametrize("kind, texts, needed", [("fill_mask", TEXTS, r"\[MASK\]"), ("tagging", ["", " "], "words")])
def test_texts_on_which_nothing_is_predicted_are_refused(kind, texts, needed):
    with pytest.raises(ValueError, match=f"nothing for the `calibration` texts. Use texts with {needed}"):
        int8_export.int8_export(make_pipeline(kind)[0], texts)


def test_calibration_in_a_frame():
    frame = pytest.importorskip("pandas").DataFrame({"text": TEXTS, "n": range(len(TEXTS))})
    assert int8_export.int8_export(_classifier(), frame)[1]["rows"] == len(TEXTS)


def test_a_long_file_is_sampled_evenly(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(f"text {n}" for n in range(2000)), encoding="utf-8")
    texts = calibration_rows(_classifier(), tmp_path / "texts.txt")["text"]
    assert len(texts) == 500 and texts[:2] == ["text 0", "text 4"] and texts[-1] == "text 1996"


def test_scores_of_both_precisions_on_labeled_examples(tmp_path):
    _write_csv(tmp_path / "dev.csv", text=TEXTS, label=["good", "bad", "odd", "odd"])
    pipeline = _classifier()
    expected = kbert.evaluate(pipeline, examples=tmp_path / "dev.csv")
    path = kbert.export(
        pipeline, tmp_path / "int8", precision="int8", calibration=TEXTS, evaluate=str(tmp_path / "dev.csv")
    )
    scores = json.loads((path / "card.json").read_text("utf-8"))["int8"]["scores"]
    assert scores["float32"]["accuracy"] == expected["accuracy"]
    assert scores["int8"].keys() == scores["float32"].keys()


def test_differences():
    embeddings = np.array([[3.0, 4.0], [0.0, 2.0]])
    found = int8_export.differences({"embedding": embeddings}, {"embedding": np.array([[3.0, 4.0], [2.0, 0.0]])})
    assert found == {"mean_cosine": 0.5, "least_cosine": 0.0}
    plain = {"label": np.array(["a", "b"]), "probabilities": np.array([[0.9, 0.1], [0.4, 0.6]])}
    other = {"label": np.array(["a", "a"]), "probabilities": np.array([[0.8, 0.2], [0.55, 0.45]])}
    assert int8_export.differences(plain, other) == {"agreement": 0.5, "probability_difference": 0.15}
    plain = {"tags": np.array([["O", "B", ""], ["O", "", ""]]), "count": np.array([2, 1])}
    other = {"tags": np.array([["O", "O", ""], ["O", "", ""]]), "count": np.array([2, 1])}
    assert int8_export.differences(plain, other) == {"agreement": 0.66667}
    plain = {"is_on": np.array([[True, False], [True, True]])}
    assert int8_export.differences(plain, {"is_on": np.array([[True, False], [True, False]])}) == {"agreement": 0.5}
    plain = {"tokens": np.array([[["a", "b"], ["", ""]]]), "count": np.array([1])}
    assert int8_export.differences(plain, {"tokens": np.array([[["b", "a"], ["", ""]]]), "count": [1]}) == {
        "agreement": 0.0
    }
    scores = int8_export.differences({"score": np.array([1.0, 2.0, 4.0])}, {"score": np.array([1.5, 2.5, 4.5])})
    assert scores == {"score_difference": 0.5, "correlation": 1.0}
    spans = {name: np.array([[1, 5, 0], [2, 0, 0]]) for name in ("starts", "ends")}
    spans |= {"types": np.array([["LOC", "PER", ""], ["LOC", "", ""]]), "count": np.array([2, 1])}
    moved = spans | {"ends": np.array([[1, 6, 0], [2, 0, 9]])}
    assert int8_export.differences(spans, moved) == {"agreement": 0.5}


def test_a_large_difference_is_a_warning(caplog, monkeypatch):
    texts = [TEXTS[0], *TEXTS[2:]]  # the best two labels of the second are 0.001 apart
    int8_export.int8_export(_classifier(), texts)
    assert "more than usual" not in caplog.text
    monkeypatch.setitem(int8_export._LIMITS, "agreement", 1.01)
    int8_export.int8_export(_classifier(), texts)
    assert "int8 answers differ from float32 more than usual: agreement" in caplog.text


def test_what_is_refused(tmp_path, monkeypatch):
    pipeline = _classifier()
    for export, source in ((kbert.export, pipeline), (export_command, "no-such-model")):  # before a model is loaded
        with pytest.raises(ValueError, match='precision="int8" needs `calibration`: about 128 texts'):
            export(source, tmp_path / "x", precision="int8")
        for name in ("calibration", "evaluate"):
            with pytest.raises(ValueError, match='`calibration` and `evaluate` need precision="int8"'):
                export(source, tmp_path / "x", **{name: "texts.csv"})
    with pytest.raises(ValueError, match=r"`calibration` has no rows. Received: \[\]"):
        kbert.export(pipeline, tmp_path / "x", precision="int8", calibration=[])
    quantised = _classifier()
    quantised.model.quantize("int8")
    with pytest.raises(ValueError, match="a quantised model cannot be converted"):
        kbert.export(quantised, tmp_path / "x", precision="int8", calibration=TEXTS)
    with monkeypatch.context() as patch:
        patch.setattr(int8, "_OP", "_NoSuchProduct")  # as where the op is not registered
        with pytest.raises(SetupError, match="TensorFlow .* lacks on this machine: .*_NoSuchProduct"):
            kbert.export(pipeline, tmp_path / "x", precision="int8", calibration=TEXTS)
    with monkeypatch.context() as patch:
        call = Int8Product.__call__
        patch.setattr(Int8Product, "__call__", lambda self, x, training=False: 1.1 * call(self, x))
        with pytest.raises(SetupError, match="wrongly on this machine: a test product is off by"):
            kbert.export(pipeline, tmp_path / "x", precision="int8", calibration=TEXTS)
    assert not (tmp_path / "x").exists()
