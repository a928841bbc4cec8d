"""The audit passes on every export, and says what is wrong with others."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers.run_recipe import run_kbert
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

import kbert
from kbert.serving.audit import batching_problems
from kbert.serving.exported_pipeline import ExportedPipeline
from kbert.serving.server_ops import TEXT_OPS, forbidden
from kbert.serving.write_export import set_methods, warmup_record


def test_every_export_passes(served):
    report = kbert.audit(served.path.parent)
    assert report.path == served.path and report.problems == []
    text_ops = {"FastWordpieceTokenizeWithOffsets", "NormalizeUTF8", "NormalizeUTF8WithOffsetsMap", "FindSourceOffsets"}
    assert set(report.servers) <= text_ops
    assert {"MatMul", "While", "ReadVariableOp"} <= set(report.ops), "the ops of functions are missing"
    text = "\n".join(report.lines())
    assert "tensorflow_model_server 2.11 and later" in text and "2.12 or later runs it" in text
    report.require_clean()


# Models that others made


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


def test_ops_that_servers_lack(tmp_path):
    """One that calls Python, and the one that KerasHub packs pairs with, without KerasHub."""
    import tensorflow_text

    def python(text):
        return {"out": tf.ensure_shape(tf.numpy_function(lambda x: x, [text], tf.string), [None])}

    def trimmed(text):
        words = tf.strings.split(text)
        return {"words": tensorflow_text.RoundRobinTrimmer(4).trim([words, words])[0].to_tensor(shape=[None, 4])}

    assert problems_of(tmp_path / "python", _Foreign(python)) == ["PyFunc calls Python, which a server has not"]
    assert problems_of(tmp_path / "text", _Foreign(trimmed)) == ["TFText>RoundRobinTrim is in no server before 2.20"]
    assert forbidden("MutableHashTableV2") and not forbidden("MatMul") and TEXT_OPS["FastBertNormalize"] == "2.12"


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
    assert problems_of(tmp_path / "twice", module) == ["the weight w is stored a second time: copy"]


def test_kerass_own_export_stores_them_twice(tmp_path):
    """As of Keras 3.15 (keras issue 23553): what kbert goes round, and the audit has to see."""
    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(100)])
    model.export(str(tmp_path / "dense"), verbose=False)
    problems = kbert.audit(tmp_path / "dense").problems
    assert problems[0].startswith("the weight ") and " is stored a second time: " in problems[0]
    assert problems[1].startswith("the checkpoint holds "), "a bias of zeros looks like any other: only the sum tells"


# Exports that somebody changed


@pytest.fixture
def changed(served_models, tmp_path):
    """Function of a change of a SavedModel message: writes it into a copy of an export, whose path it returns."""
    path = shutil.copytree(served_models["single"].path, tmp_path / "1")
    original = (path / "saved_model.pb").read_bytes()

    def write(change):
        model = saved_model_pb2.SavedModel.FromString(original)
        change(model)
        (path / "saved_model.pb").write_bytes(model.SerializeToString())
        return path

    return write


def _serving_nodes(model):
    """The nodes of the largest function, which the default signature runs."""
    functions = model.meta_graphs[0].graph_def.library.function
    return max(functions, key=lambda function: len(function.node_def)).node_def


def test_ops_of_no_stock_server(changed):
    def rename(model):
        for node, op in zip(_serving_nodes(model), ("Addons>Gelu", "NoSuchOp", "SegmentMaxV2"), strict=False):
            node.op = op

    assert kbert.audit(changed(rename)).problems == [
        "Addons>Gelu is in no stock server",
        "NoSuchOp is in no stock server",
        f"SegmentMaxV2 {forbidden('SegmentMaxV2')}",  # not in TensorFlow 2.12
    ]


FILE_OPS = """
    ReadFile WriteFile PrintV2 Save SaveV2 Restore RestoreV2 RestoreSlice CacheDataset CacheDatasetV2 TextLineDataset
    TFRecordDataset FixedLengthRecordDatasetV2 MergeV2Checkpoints DebugIdentityV2 CreateSummaryFileWriter ImmutableConst
    LoadDataset SaveDatasetV2 SnapshotDatasetV2 SdcaShrinkL1 Copy DebugNanCount LMDBReader LookupTableFind RemoteCall
    AssignVariableOp ShardedFilename DisableCopyOnRead InitializeTableFromTextFileV2 LoadAndRemapMatrix NcclReduce
    """.split()


@pytest.mark.parametrize("place", ["function", "graph"])
def test_ops_that_read_or_write_files_fail(changed, place):
    """Wherever they stand but in the saver. None of them can be run here: they are only named."""

    def add(model):
        nodes = _serving_nodes(model) if place == "function" else model.meta_graphs[0].graph_def.node
        for op in FILE_OPS:
            nodes.add(name=f"added_{op}", op=op)

    refused = {problem.split()[0] for problem in kbert.audit(changed(add)).problems}
    initialiser = {"AssignVariableOp"} if place == "graph" else set()  # which no server calls
    assert refused == set(FILE_OPS) - initialiser


def test_only_the_saver_may_save_and_restore(changed):
    """Its functions are called by nothing else, and the one that servers run reads the file that they name."""

    def called_by_a_signature(graph, functions, saves, restores):
        node = next(n for f in functions for n in f.node_def if n.op == "StatefulPartitionedCall")
        node.attr["f"].func.name = saves.signature.name

    def called_from_python(graph, functions, saves, restores):
        graph.object_graph_def.concrete_functions[restores.signature.name].SetInParent()

    def another_file(graph, functions, saves, restores):
        restore = next(node for node in restores.node_def if node.op == "RestoreV2")
        restore.input[0] = next(node for node in restores.node_def if node.op == "Const").name + ":output:0"

    def a_constant_for_the_file(graph, functions, saves, restores):
        call = next(node for node in graph.graph_def.node if node.name == graph.saver_def.restore_op_name)
        call.input[0] = next(node for node in graph.graph_def.node if node.op == "Const").name

    def moves_files_when_it_restores(graph, functions, saves, restores):
        restores.node_def.add(name="move", op="MergeV2Checkpoints")

    def saves_when_it_restores(graph, functions, saves, restores):
        graph.saver_def.restore_op_name = graph.saver_def.save_tensor_name.partition(":")[0]

    def restored_twice(graph, functions, saves, restores):
        restores.node_def.add(name="more", op=saves.signature.name)

    def given_to_a_function(graph, functions, saves, restores):
        node = next(n for f in functions for n in f.node_def if n.op == "StatefulPartitionedCall")
        node.attr["f"].func.attr["f"].func.name = saves.signature.name

    def fetched_by_a_request(graph, functions, saves, restores):
        outputs = graph.signature_def["serving_default"].outputs
        outputs["probabilities"].name = graph.saver_def.save_tensor_name
        outputs["label"].name = graph.saver_def.restore_op_name + ":0"

    def run_by_the_loader(graph, functions, saves, restores):
        """It wrote a file while an export was loaded, whose audit was clean."""
        init = graph.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"]
        init.name = graph.saver_def.save_tensor_name.partition(":")[0]

    def run_by_loaders_of_old(graph, functions, saves, restores):
        graph.collection_def["saved_model_main_op"].node_list.value[:] = [graph.saver_def.restore_op_name]

    def waited_for(graph, functions, saves, restores):
        waits = next(node for node in graph.graph_def.node if node.name == "StatefulPartitionedCall")
        waits.input.append("^" + graph.saver_def.save_tensor_name.partition(":")[0])

    for change, ops in (
        (called_by_a_signature, {"SaveV2", "MergeV2Checkpoints", "ShardedFilename", "DisableCopyOnRead"}),
        (called_from_python, {"RestoreV2", "AssignVariableOp"}),
        (another_file, {"RestoreV2", "AssignVariableOp"}),
        (a_constant_for_the_file, {"RestoreV2", "AssignVariableOp"}),
        (moves_files_when_it_restores, {"MergeV2Checkpoints"}),
        (saves_when_it_restores, {"SaveV2", "RestoreV2"}),
        (restored_twice, {"SaveV2"}),
        (given_to_a_function, {"SaveV2"}),
        (fetched_by_a_request, {"SaveV2", "RestoreV2"}),
        (run_by_the_loader, {"SaveV2"}),
        (run_by_loaders_of_old, {"RestoreV2"}),
        (waited_for, {"SaveV2"}),
    ):

        def of_the_saver(model, change=change):
            graph = model.meta_graphs[0]
            functions = list(graph.graph_def.library.function)
            with_op = {node.op: function for function in functions for node in function.node_def}
            change(graph, functions, with_op["SaveV2"], with_op["RestoreV2"])

        refused = {problem.split()[0] for problem in kbert.audit(changed(of_the_saver)).problems}
        assert ops <= refused, change.__name__


def _second_graph(model):
    """Loaders choose by tags: the audit must not look at another graph than they."""
    model.meta_graphs.add().CopyFrom(model.meta_graphs[0])
    model.meta_graphs[0].meta_info_def.tags.append("gpu")


def _same_function(model):
    functions = model.meta_graphs[0].graph_def.library.function
    functions.add().CopyFrom(functions[0])


def _same_node(model):
    nodes = model.meta_graphs[0].graph_def.node
    nodes.add().CopyFrom(nodes[0])


def _function_named_as_an_op(model):
    """A loader might take one for the other; calls of functions are not looked at as ops."""
    model.meta_graphs[0].graph_def.library.function.add().signature.name = "ReadFile"
    model.meta_graphs[0].graph_def.node.add(name="read", op="ReadFile")


def _no_data_type(model):
    variable = next(node for node in model.meta_graphs[0].graph_def.node if node.op == "VarHandleOp")
    variable.attr["dtype"].type = 99


@pytest.mark.parametrize(
    "change, message",
    [
        (_second_graph, "expected one graph, with the tag `serve`"),
        (_same_function, "saved_model.pb is damaged: nodes or functions share a name"),
        (_same_node, "saved_model.pb is damaged: nodes or functions share a name"),
        (_function_named_as_an_op, "saved_model.pb is damaged: functions have the names of ops: .'ReadFile'"),
        (_no_data_type, "saved_model.pb is damaged: expected the number of a data type. Received: 99"),
    ],
)
def test_what_loaders_could_read_in_another_way_is_refused(changed, change, message):
    with pytest.raises(ValueError, match=message):
        kbert.audit(changed(change))


def test_an_export_is_audited_before_it_is_loaded(changed, monkeypatch):
    monkeypatch.setattr(tf.saved_model, "load", None)
    path = changed(lambda model: model.meta_graphs[0].graph_def.node.add(name="print", op="PrintV2"))
    with pytest.raises(ValueError, match=r"audit of .*: PrintV2 is not among the ops"):
        ExportedPipeline(path)


def test_a_graph_that_tensorflow_cannot_load_is_damaged(changed):
    def add(model):  # an IndexError
        model.meta_graphs[0].object_graph_def.nodes[0].children.add(node_id=10**6, local_name="x")

    with pytest.raises(ValueError, match=r"1: TensorFlow cannot load it: .*index out of range") as error:
        ExportedPipeline(changed(add))
    assert "\n" not in str(error.value)


def test_classify_and_regress_must_look_as_servers_want(changed):
    def swap(model):
        signatures = model.meta_graphs[0].signature_def
        signatures["serving_default"].method_name = "tensorflow/serving/regress"
        del signatures["classify"].outputs["scores"]

    report = kbert.audit(changed(swap))
    problems = [problem for problem in report.problems if "signature" in problem and "record" not in problem]
    assert len(problems) == 3 and problems[0].startswith("classify: a classify signature gives {'classes': 'string'")
    assert problems[1].startswith("serving_default: a regress signature takes one input")
    assert report.signatures["classify"].kind == "classify"


# Files beside the graph


def test_another_file_that_a_loader_may_read(served_models, tmp_path):
    path = shutil.copytree(served_models["single"].path, tmp_path / "1")
    (path / "saved_model.pbtxt").touch()
    problems = kbert.audit(path).problems
    assert problems == ["saved_model.pbtxt stands beside saved_model.pb, and a loader may read it instead"]


@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
def test_damaged_weights(served_models, tmp_path, name):
    path = shutil.copytree(served_models["single"].path, tmp_path / "1")
    file = path / "variables" / name
    content, rng = file.read_bytes(), np.random.default_rng(0)
    for number in range(6):
        place = int(rng.integers(len(content) - 8))
        rest = b"" if number % 2 else bytes([content[place] ^ 64]) + content[place + 1 :]
        file.write_bytes(content[:place] + rest)
        with pytest.raises(ValueError, match="variables/variables") as error:
            kbert.audit(path)
        assert "\n" not in str(error.value)
    file.unlink()
    with pytest.raises((ValueError, FileNotFoundError)):
        kbert.audit(path).require_clean()


def test_damaged_and_absent_models(tmp_path):
    with pytest.raises(FileNotFoundError, match="saved_model.pb"):
        kbert.audit(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match="damaged"):
        kbert.audit(tmp_path)


class _Scorer(tf.Module):
    """Two columns, and the same as features of tf.Examples, of which one has a default."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=name) for name in ("a", "b")])
    def serve(self, a, b):
        return {"score": tf.cast(tf.strings.length(a) + tf.strings.length(b), tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def regress(self, inputs):
        default = {"a": tf.io.FixedLenFeature([], tf.string), "b": tf.io.FixedLenFeature([], tf.string, "none")}
        return {"outputs": self.serve(**tf.io.parse_example(inputs, default))["score"]}


def test_warm_up_requests(tmp_path):
    module = _Scorer()
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.serve, "regress": module.regress})
    set_methods(tmp_path, {"regress": "tensorflow/serving/regress"})
    file = tmp_path / "assets.extra/tf_serving_warmup_requests"
    file.parent.mkdir()

    def predict(*rows, signature="serving_default"):
        return warmup_record("predict", signature, rows)

    def regress(*rows):
        return warmup_record("regress", "regress", rows)

    def shaped(**shapes):
        """Each input has two values, whatever its shape says."""
        log = prediction_log_pb2.PredictionLog()
        for name, shape in shapes.items():
            log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(["x", "y"]))
            log.predict_log.request.inputs[name].tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
        return log.SerializeToString()

    fits, example = predict({"a": "x", "b": "x"}, {"a": "y", "b": "y"}), regress({"a": "x"})
    no_log = "expected a PredictionLog"
    for records, problems in (
        ([fits, regress({"a": "x"}, {"a": "x", "b": "y", "c": "z"})], []),
        ([fits], ["no record for the signature regress"]),
        ([fits, example, regress()], ["no examples"]),
        ([fits, regress({"a": "x"}, {"b": "y"})], ["a tf.Example with ['b'] lacks features: [['a']]"]),
        ([predict({"a": "x"}), example], ["expected the inputs ['a', 'b'], not ['a']"]),
        ([fits, example, predict({"a": "x"}, signature="answer")], ["there is no signature 'answer'"]),
        (
            [fits, example, warmup_record("classify", "serving_default", [{"a": "x"}])],
            ["serving_default is a predict signature, not for classify"],
        ),
        (
            [predict({"a": ["x"], "b": 1}), example],
            ["`a` must be string (None,), not string (1, 1)", "`b` must be string (None,), not int32 (1,)"],
        ),
        (
            [shaped(a=[2], b=[1]), example],
            ["`b` must have 1 strings, not 2", "the inputs must have the same number of rows, not {'a': 2, 'b': 1}"],
        ),
        # A record of 60 bytes must not be expanded.
        ([shaped(a=[2**40], b=[2**40]), example], [f"`{name}` must have {2**40} strings, not 2" for name in "ab"]),
        ([b""], [no_log]),
        ([b"\xff" * 12], [no_log]),
        ([regress() + bytes.fromhex("1a07 0a05 1203 0a01 ff")], [no_log]),
    ):
        with tf.io.TFRecordWriter(str(file)) as writer:
            for record in records:
                writer.write(record)
        found = [problem.split(": ", 1)[1] for problem in kbert.audit(tmp_path).problems]
        assert [problem.split(" of predict")[0].split(". ")[0] for problem in found] == problems
    file.write_bytes(b"no records")
    assert kbert.audit(tmp_path).problems[0].startswith("tf_serving_warmup_requests: expected a TFRecord file")


def test_batching_parameters(tmp_path):
    sizes = "allowed_batch_sizes"
    for text, problem in {
        "max_batch_size: 8": "expected `max_batch_size { value: N }`. Received: `max_batch_size` with 8",
        "allowed_batch_sizes { value: 8 }": f"expected `{sizes}: N`. Received: `{sizes}` with 8",
        "max_batch_size = 8": "expected `name { value: N }` and `name: N`. Received: 'max_batch_size = 8'",
        f"max_batch_size {{ value: 8 }}, {sizes}: 4": f"{sizes} must rise up to max_batch_size (8), not [4]",
    }.items():
        (tmp_path / "batching_params.pbtxt").write_text(text)
        assert list(batching_problems(tmp_path)) == [f"batching_params.pbtxt: {problem}"]


def test_the_recipe(served_models, tmp_path, capsys):
    run_kbert("audit", served_models["encoder"].path.parent)
    assert "signature embed" in capsys.readouterr().out
    tf.saved_model.save(module := _Foreign(lambda text: {"n": tf.size(text)}), str(tmp_path), signatures=module.serve)
    with pytest.raises(SystemExit, match="1"):
        run_kbert("audit", tmp_path, "--json")
    assert '"problems": ["serving_default: the output n' in capsys.readouterr().out
    with pytest.raises(SystemExit, match="error: Expected a SavedModel"):
        run_kbert("audit", tmp_path / "nothing")
