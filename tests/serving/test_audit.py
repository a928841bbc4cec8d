"""The audit passes on every export, and says what is wrong with others."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers.run_recipe import run_recipe
from tensorflow.core.protobuf import saved_model_pb2

import kbert
from kbert.serving.audit_files import batching_problems
from kbert.serving.messages import example_request, predict_request, prediction_log
from kbert.serving.saved_model_file import SavedModelFile, set_methods
from kbert.serving.server_ops import TEXT_OPS, forbidden


def test_every_export_passes(served):
    report = kbert.audit(served.path.parent)
    assert report.path == served.path and report.problems == []
    text_ops = {"FastWordpieceTokenizeWithOffsets", "NormalizeUTF8", "NormalizeUTF8WithOffsetsMap", "FindSourceOffsets"}
    assert set(report.servers) <= text_ops
    assert {"MatMul", "While", "ReadVariableOp"} <= set(report.ops), "the ops of functions are missing"
    text = "\n".join(report.lines())
    assert "tensorflow_model_server 2.11 and later" in text and "2.12 or later runs it" in text
    report.require_clean()


class _Foreign(tf.Module):
    """A module whose only signature is the function given, on strings [None]."""

    def __init__(self, function):
        super().__init__()
        self.serve = tf.function(function, input_signature=[tf.TensorSpec([None], tf.string, name="text")])


def problems_of(directory, module, **signatures):
    tf.saved_model.save(module, str(directory), signatures=signatures or {"serving_default": module.serve})
    return kbert.audit(directory).problems


def test_a_lookup_table_fails(tmp_path):
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["good"], tf.constant([0], tf.int64)), num_oov_buckets=1
    )
    module = _Foreign(lambda text: {"id": table.lookup(text)})
    module.table = table
    problems = problems_of(tmp_path, module)
    assert any("HashTableV2 is a lookup table" in problem for problem in problems)
    assert any("LookupTableFindV2" in problem for problem in problems)


def test_the_op_that_keras_hub_preprocesses_with_fails(tmp_path):
    """KerasHub packs pairs with tensorflow-text's RoundRobinTrimmer; this needs no KerasHub to be installed."""
    import tensorflow_text

    def answer(text):
        words = tf.strings.split(text)
        trimmed = tensorflow_text.RoundRobinTrimmer(4).trim([words, words])
        return {"words": trimmed[0].to_tensor(shape=[None, 4])}

    problems = problems_of(tmp_path, _Foreign(answer))
    assert problems == ["TFText>RoundRobinTrim is in no server before 2.20"]


@pytest.mark.slow  # importing KerasHub takes seconds; its operation: the test above
def test_keras_hub_preprocessing_fails(tmp_path, served_models):
    keras_hub = pytest.importorskip("keras_hub")
    tokenizer = keras_hub.models.BertTokenizer(served_models["single"].pipeline.tokenizer.vocabulary)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=8)
    problems = problems_of(tmp_path, _Foreign(lambda text: preprocessor(text)))
    assert "TFText>RoundRobinTrim is in no server before 2.20" in problems


def test_other_ops_that_servers_lack(tmp_path, served_models):
    def python(text):
        return {"out": tf.ensure_shape(tf.numpy_function(lambda x: x, [text], tf.string), [None])}

    assert problems_of(tmp_path / "python", _Foreign(python)) == ["PyFunc calls Python, which a server has not"]
    assert forbidden("MutableHashTableV2") and not forbidden("MatMul")
    path = tmp_path / "renamed"
    shutil.copytree(served_models["single"].path, path)
    content = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    nodes = [n for f in content.meta_graphs[0].graph_def.library.function for n in f.node_def if n.op == "MatMul"]
    for node, op in zip(nodes, ("Addons>Gelu", "NoSuchOp", "SegmentMaxV2"), strict=False):
        node.op = op
    (path / "saved_model.pb").write_bytes(content.SerializeToString())
    assert kbert.audit(path).problems == [
        "Addons>Gelu is in no stock server",
        "NoSuchOp is in no stock server",
        "SegmentMaxV2 is not in TensorFlow 2.12, and so not in that server",
    ]
    assert TEXT_OPS["FastBertNormalize"] == "2.12"


def test_signatures_that_servers_cannot_batch(tmp_path):
    def answer(text):
        return {
            "logo_bytes": text,
            "labels": tf.constant(["good", "bad"]),
            "mean": tf.reduce_mean(tf.strings.length(text)),
        }

    problems = problems_of(tmp_path, module := _Foreign(answer), other=module.serve)
    assert problems == [
        "there is no signature serving_default, only ['other']",
        "other: the output labels must have the batch first; its shape is (2,)",
        "other: the output mean must have the batch first; its shape is ()",
        "other: REST encodes outputs named *_bytes in base64; rename logo_bytes",
    ]


def test_weights_that_are_stored_twice(tmp_path):
    module = _Foreign(lambda text: {"x": tf.cast(tf.strings.length(text), tf.float32) * tf.reduce_sum(module.w)})
    values = np.arange(999, dtype="float32")
    module.w = tf.Variable(values)
    assert problems_of(tmp_path / "once", module) == []
    module.copy = tf.Variable(values)
    problems = problems_of(tmp_path / "twice", module)
    assert problems == ["the weight w is stored a second time: copy"]


def test_kerass_own_export_stores_them_twice(tmp_path):
    """As of Keras 3.15 (keras issue 23553): what kbert goes round, and the audit has to see."""
    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(100)])
    model.export(str(tmp_path / "dense"), verbose=False)
    problems = kbert.audit(tmp_path / "dense").problems
    assert problems[0].startswith("the weight ") and " is stored a second time: " in problems[0]
    assert problems[1].startswith("the checkpoint holds "), "a bias of zeros looks like any other: only the sum tells"


def test_warm_up_and_batching_files(tmp_path, served_models):
    path = tmp_path / "1"
    shutil.copytree(served_models["regression"].path, path)
    file = path / "assets.extra/tf_serving_warmup_requests"
    text = np.array(["a"], object)
    requests = [
        ("predict", predict_request("serving_default", {"text": text})),
        ("predict", predict_request("answer", {"text": text})),
        ("classify", example_request("serving_default", [{"text": "a"}])),
        ("predict", predict_request("serving_default", {"text": text[None], "text_pair": np.array([1], "int32")})),
    ]
    with tf.io.TFRecordWriter(str(file)) as writer:
        for kind, request in requests:
            writer.write(prediction_log(kind, request))
    (path / "batching_params.pbtxt").write_text("max_batch_size { value: 8 }\nallowed_batch_sizes: 4\n")
    name = "tf_serving_warmup_requests"
    assert kbert.audit(path).problems == [
        f"{name}, record 0, serving_default: expected the inputs ['text', 'text_pair'], not ['text']",
        f"{name}, record 1: there is no signature 'answer'",
        f"{name}, record 2: serving_default is a predict signature, not for classify",
        f"{name}, record 3, serving_default: `text` must be string (None,), not string (1, 1)",
        f"{name}, record 3, serving_default: `text_pair` must be string (None,), not int32 (1,)",
        f"{name}: no record for the signature regress",
        "batching_params.pbtxt: allowed_batch_sizes must rise up to max_batch_size (8), not [4]",
    ]
    file.write_bytes(b"no records")
    (path / "batching_params.pbtxt").write_text("max_batch_size = 8")
    assert [problem.split(": expected")[0] for problem in kbert.audit(path).problems] == [name, "batching_params.pbtxt"]


class _Scorer(tf.Module):
    """Two columns, and the same as features of tf.Examples, of which one has a default."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=name) for name in ("a", "b")])
    def serve(self, a, b):
        return {"score": tf.cast(tf.strings.length(a) + tf.strings.length(b), tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def regress(self, inputs):
        found = tf.io.parse_example(
            inputs, {"a": tf.io.FixedLenFeature([], tf.string), "b": tf.io.FixedLenFeature([], tf.string, "none")}
        )
        return {"outputs": self.serve(**found)["score"]}


def test_warm_up_rows_and_examples(tmp_path):
    module, one, two = _Scorer(), np.array(["x"], object), np.array(["x", "y"], object)
    signatures = {"serving_default": module.serve, "regress": module.regress}
    tf.saved_model.save(module, str(tmp_path), signatures=signatures)
    set_methods(tmp_path, {"regress": "tensorflow/serving/regress"})
    file = tmp_path / "assets.extra/tf_serving_warmup_requests"
    file.parent.mkdir()

    def problems(*requests):
        with tf.io.TFRecordWriter(str(file)) as writer:
            for request in requests:
                writer.write(prediction_log("regress" if request is not fits else "predict", request))
        return [problem.split(": ", 1)[1] for problem in kbert.audit(tmp_path).problems]

    fits = predict_request("serving_default", {"a": two, "b": two})
    assert problems(fits, example_request("regress", [{"a": "x"}, {"a": "x", "b": "y", "c": "z"}])) == []
    assert problems(fits, example_request("regress", []), example_request("regress", [{"a": "x"}, {"b": "y"}])) == [
        "no examples",
        "a tf.Example with ['b'] lacks features: [['a']]",
    ]
    broken = example_request("regress", []) + bytes.fromhex("1205 0a03 0a01 ff")  # input.example_list.examples: b"\xff"
    assert problems(fits, broken) == ["b'\\xff' is no tf.Example"]
    fits = predict_request("serving_default", {"a": two, "b": one})
    assert problems(fits, example_request("regress", [{"a": "x"}])) == [
        "the inputs must have the same number of rows, not {'a': 2, 'b': 1}"
    ]


@pytest.mark.parametrize("text", ["max_batch_size: 8", "allowed_batch_sizes { value: 8 }"])
def test_batching_parameters_with_wrong_braces(text, tmp_path):
    (tmp_path / "batching_params.pbtxt").write_text(text)
    [problem] = batching_problems(tmp_path)
    assert problem.startswith("batching_params.pbtxt: expected `") and problem.endswith("with 8")


def test_damaged_and_absent_models(tmp_path):
    with pytest.raises(FileNotFoundError, match="saved_model.pb"):
        kbert.audit(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match="damaged"):
        kbert.audit(tmp_path)


def test_the_recipe(served_models, tmp_path, capsys):
    run_recipe("audit_saved_model", served_models["encoder"].path.parent)
    assert "signature embed" in capsys.readouterr().out
    tf.saved_model.save(module := _Foreign(lambda text: {"n": tf.size(text)}), str(tmp_path), signatures=module.serve)
    with pytest.raises(SystemExit, match="1"):
        run_recipe("audit_saved_model", tmp_path, "--json")
    assert '"problems": ["serving_default: the output n' in capsys.readouterr().out
    with pytest.raises(SystemExit, match="error: Expected a SavedModel"):
        run_recipe("audit_saved_model", tmp_path / "nothing")


def test_classify_and_regress_must_look_as_servers_want(served_models, tmp_path):
    path = tmp_path / "1"
    shutil.copytree(served_models["single"].path, path)
    content = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    signatures = content.meta_graphs[0].signature_def
    signatures["serving_default"].method_name = "tensorflow/serving/regress"
    del signatures["classify"].outputs["scores"]
    (path / "saved_model.pb").write_bytes(content.SerializeToString())
    found = [problem for problem in kbert.audit(path).problems if "signature" in problem and "record" not in problem]
    assert len(found) == 3 and found[0].startswith("classify: a classify signature gives {'classes': 'string'")
    assert found[1].startswith("serving_default: a regress signature takes one input")
    assert SavedModelFile(path).signatures["classify"].kind == "classify"
