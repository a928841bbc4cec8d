"""The audit passes on every export, and says what is wrong with others."""

import re
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
from kbert.serving.saved_model_file import SavedModelFile
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
        f"SegmentMaxV2 {forbidden('SegmentMaxV2')}",  # not in TensorFlow 2.12
    ]
    assert TEXT_OPS["FastBertNormalize"] == "2.12"


def _edited(source, directory):
    """A copy of a SavedModel, its content, and a function that writes the content back."""
    shutil.copytree(source, directory)
    file = directory / "saved_model.pb"
    content = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    return content, lambda: file.write_bytes(content.SerializeToString())


FILE_OPS = """
    ReadFile WriteFile PrintV2 Save SaveV2 Restore RestoreV2 RestoreSlice CacheDataset CacheDatasetV2 TextLineDataset
    TFRecordDataset FixedLengthRecordDatasetV2 MergeV2Checkpoints DebugIdentityV2 CreateSummaryFileWriter ImmutableConst
    LoadDataset SaveDatasetV2 SnapshotDatasetV2 SdcaShrinkL1 Copy DebugNanCount LMDBReader LookupTableFind RemoteCall
    AssignVariableOp ShardedFilename DisableCopyOnRead InitializeTableFromTextFileV2 LoadAndRemapMatrix NcclReduce
    """.split()


def test_ops_that_read_or_write_files_fail(served_models, tmp_path):
    """Wherever they stand but in the saver; in the graph, too. None of them can be run here: they are only named."""
    content, write = _edited(served_models["single"].path, tmp_path / "1")
    [matmul, *_] = [
        n for f in content.meta_graphs[0].graph_def.library.function for n in f.node_def if n.op == "MatMul"
    ]
    placeholder = content.meta_graphs[0].graph_def.node[0]
    for node in (matmul, placeholder):
        right = node.op
        for op in FILE_OPS:
            node.op = op
            write()
            if (node.op, node) != ("AssignVariableOp", placeholder):  # an initialiser
                assert any(problem.startswith(f"{op} ") for problem in kbert.audit(tmp_path / "1").problems), op
        node.op = right
    write()
    assert kbert.audit(tmp_path / "1").problems == []


def test_only_the_saver_may_save_and_restore(served_models, tmp_path):
    """Its functions are called by nothing else, and the one that servers run reads the file that they name."""

    def problems(name, change):
        content, write = _edited(served_models["single"].path, tmp_path / name)
        graph = content.meta_graphs[0]
        functions = {f.signature.name: f for f in graph.graph_def.library.function}
        saves = next(f for f in functions.values() if any(node.op == "SaveV2" for node in f.node_def))
        restores = next(f for f in functions.values() if any(node.op == "RestoreV2" for node in f.node_def))
        change(graph, functions, saves, restores)
        write()
        return kbert.audit(tmp_path / name).problems

    def called_by_a_signature(graph, functions, saves, restores):
        node = next(n for f in functions.values() for n in f.node_def if n.op == "StatefulPartitionedCall")
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
        node = next(n for f in functions.values() for n in f.node_def if n.op == "StatefulPartitionedCall")
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
        refused = {problem.split()[0] for problem in problems(change.__name__, change)}
        assert ops <= refused, change.__name__


def test_an_export_is_audited_before_it_is_loaded(served_models, tmp_path, monkeypatch):
    content, write = _edited(served_models["single"].path, tmp_path / "1")
    content.meta_graphs[0].graph_def.node.add(name="print", op="PrintV2")
    write()
    monkeypatch.setattr(tf.saved_model, "load", None)
    with pytest.raises(ValueError, match=r"audit of .*: PrintV2 is not among the ops"):
        ExportedPipeline(tmp_path / "1")


def test_a_second_graph_is_refused(served_models, tmp_path):
    """Loaders choose by tags: the audit must not look at another graph than they."""
    content, write = _edited(served_models["single"].path, tmp_path / "1")
    content.meta_graphs.add().CopyFrom(content.meta_graphs[0])
    content.meta_graphs[0].meta_info_def.tags.append("gpu")
    write()
    with pytest.raises(ValueError, match="expected one graph, with the tag `serve`"):
        kbert.audit(tmp_path / "1")
    shutil.copytree(served_models["single"].path, tmp_path / "2")
    (tmp_path / "2/saved_model.pbtxt").touch()
    problems = kbert.audit(tmp_path / "2").problems
    assert problems == ["saved_model.pbtxt stands beside saved_model.pb, and a loader may read it instead"]


def test_names_that_two_functions_or_nodes_share_are_refused(served_models, tmp_path):
    """A loader might take the other one than the audit."""
    for name in ("function", "node"):
        content, write = _edited(served_models["single"].path, tmp_path / name)
        graph = content.meta_graphs[0].graph_def
        entries = graph.library.function if name == "function" else graph.node
        entries.add().CopyFrom(entries[0])
        write()
        with pytest.raises(ValueError, match="saved_model.pb is damaged: nodes or functions share a name"):
            kbert.audit(tmp_path / name)


def test_a_function_that_has_the_name_of_an_op_is_refused(served_models, tmp_path):
    """A loader might take one for the other; calls of functions are not looked at as ops."""
    content, write = _edited(served_models["single"].path, tmp_path / "1")
    content.meta_graphs[0].graph_def.library.function.add().signature.name = "ReadFile"
    content.meta_graphs[0].graph_def.node.add(name="read", op="ReadFile")
    write()
    with pytest.raises(ValueError, match=r"saved_model.pb is damaged: functions have the names of ops: .'ReadFile'"):
        kbert.audit(tmp_path / "1")


def test_a_graph_that_tensorflow_cannot_load_is_damaged(served_models, tmp_path):
    content, write = _edited(served_models["single"].path, tmp_path / "1")
    content.meta_graphs[0].object_graph_def.nodes[0].children.add(node_id=10**6, local_name="x")  # an IndexError
    write()
    with pytest.raises(ValueError, match=r"1: TensorFlow cannot load it: .*index out of range") as error:
        ExportedPipeline(tmp_path / "1")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["variables.index", "variables.data-00000-of-00001"])
def test_damaged_weights(served_models, tmp_path, name):
    shutil.copytree(served_models["single"].path, tmp_path / "1")
    file = tmp_path / "1/variables" / name
    content, rng = file.read_bytes(), np.random.default_rng(0)
    for number in range(10):
        place = int(rng.integers(len(content) - 8))
        if number % 2:
            file.write_bytes(content[:place])
        else:
            file.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
        for look in (kbert.audit, ExportedPipeline):
            with pytest.raises(ValueError, match="variables/variables") as error:
                look(tmp_path / "1")
            assert "\n" not in str(error.value)
    file.unlink()
    with pytest.raises((ValueError, FileNotFoundError)):
        kbert.audit(tmp_path / "1").require_clean()


def test_a_number_that_is_no_data_type(served_models, tmp_path):
    content, write = _edited(served_models["single"].path, tmp_path / "1")
    next(node for node in content.meta_graphs[0].graph_def.node if node.op == "VarHandleOp").attr["dtype"].type = 99
    write()
    with pytest.raises(ValueError, match="saved_model.pb is damaged: expected the number of a data type"):
        kbert.audit(tmp_path / "1")


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


def test_equal_blocks_are_not_stored_twice(tmp_path):
    """Two blocks of a grown model are equal; a second copy of one of them is none of these."""
    module = _Foreign(lambda text: {"x": tf.cast(tf.strings.length(text), tf.float32) * tf.reduce_sum(module.w)})
    values = np.arange(999, dtype="float32")
    module.w = tf.Variable(values, name="encoder_block_0/kernel")
    module.w_of_a_copy = tf.Variable(values, name="encoder_block_1/kernel")
    assert problems_of(tmp_path / "equal", module) == []
    for name in ("encoder_block_1/kernel", "encoder_block_2/other", "kernel_1"):
        module.x = tf.Variable(values, name=name)
        (problem,) = problems_of(tmp_path / name, module)
        assert re.fullmatch("the weight x is stored a second time: (w|w_of_a_copy)", problem)


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
    with tf.io.TFRecordWriter(str(file)) as writer:
        writer.write(warmup_record("predict", "serving_default", [{"text": "a"}]))
        writer.write(warmup_record("predict", "answer", [{"text": "a"}]))
        writer.write(warmup_record("classify", "serving_default", [{"text": "a"}]))
        writer.write(warmup_record("predict", "serving_default", [{"text": ["a"], "text_pair": 1}]))
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
    module = _Scorer()
    signatures = {"serving_default": module.serve, "regress": module.regress}
    tf.saved_model.save(module, str(tmp_path), signatures=signatures)
    set_methods(tmp_path, {"regress": "tensorflow/serving/regress"})
    file = tmp_path / "assets.extra/tf_serving_warmup_requests"
    file.parent.mkdir()
    fits = warmup_record("predict", "serving_default", [{"a": "x", "b": "x"}, {"a": "y", "b": "y"}])

    def problems(*records):
        with tf.io.TFRecordWriter(str(file)) as writer:
            for record in records:
                writer.write(record)
        return [problem.split(": ", 1)[1] for problem in kbert.audit(tmp_path).problems]

    def regress(*rows):
        return warmup_record("regress", "regress", rows)

    def predict(**shapes):
        """Each input has two values, whatever its shape says."""
        log = prediction_log_pb2.PredictionLog()
        for name, shape in shapes.items():
            log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(["x", "y"]))
            log.predict_log.request.inputs[name].tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
        return log.SerializeToString()

    assert problems(fits, regress({"a": "x"}, {"a": "x", "b": "y", "c": "z"})) == []
    assert problems(fits, regress(), regress({"a": "x"}, {"b": "y"})) == [
        "no examples",
        "a tf.Example with ['b'] lacks features: [['a']]",
    ]
    assert problems(predict(a=[2], b=[1]), regress({"a": "x"})) == [
        "`b` must have 1 strings, not 2",
        "the inputs must have the same number of rows, not {'a': 2, 'b': 1}",
    ]
    huge = predict(a=[2**40], b=[2**40])  # a record of 60 bytes must not be expanded
    assert problems(huge, regress({"a": "x"})) == [f"`{name}` must have {2**40} strings, not 2" for name in "ab"]
    no_example = regress() + bytes.fromhex("1a07 0a05 1203 0a01 ff")
    for broken in (b"", b"\xff" * 12, no_example):
        assert [problem.split(". ")[0] for problem in problems(broken)] in (
            ["expected a PredictionLog"],
            ["expected a PredictionLog of predict, classify or regress"],
        )


@pytest.mark.parametrize(
    "text,problem",
    [
        (
            "max_batch_size: 8",
            "expected TensorFlow Serving's BatchingParameters: 1:17 : 'max_batch_size: 8': Expected \"{\"",
        ),
        ("allowed_batch_sizes { value: 8 }", "expected TensorFlow"),
        ("allowed_batch_size: 8", "expected TensorFlow"),
        ("enable_large_batch_splitting: true", "expected TensorFlow"),
        (
            "max_batch_size: { value: 8 } allowed_batch_sizes: [4, 8] thread_pool_name { value: 'one' } # a comment",
            None,
        ),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: [4, 2, 8]",
            "allowed_batch_sizes must rise up to max_batch_size",
        ),
        (
            "max_batch_size { value: 8 } max_execution_batch_size { value: 4 } allowed_batch_sizes: 4 "
            "enable_large_batch_splitting { value: true }",
            None,
        ),
    ],
)
def test_batching_parameters_are_read_as_a_server_reads_them(text, problem, tmp_path):
    (tmp_path / "batching_params.pbtxt").write_text(text)
    found = list(batching_problems(tmp_path))
    assert len(found) == (problem is not None)
    assert problem is None or found[0].startswith(f"batching_params.pbtxt: {problem}")


def test_damaged_and_absent_models(tmp_path):
    with pytest.raises(FileNotFoundError, match="saved_model.pb"):
        kbert.audit(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match="damaged"):
        kbert.audit(tmp_path)


def test_the_recipe(served_models, tmp_path, capsys):
    run_kbert("audit", served_models["encoder"].path.parent)
    assert "signature embed" in capsys.readouterr().out
    tf.saved_model.save(module := _Foreign(lambda text: {"n": tf.size(text)}), str(tmp_path), signatures=module.serve)
    with pytest.raises(SystemExit, match="1"):
        run_kbert("audit", tmp_path, "--json")
    assert '"problems": ["serving_default: the output n' in capsys.readouterr().out
    with pytest.raises(SystemExit, match="error: Expected a SavedModel"):
        run_kbert("audit", tmp_path / "nothing")


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
