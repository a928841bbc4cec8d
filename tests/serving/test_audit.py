"""The audit passes on every export, and says what is wrong with others."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from helpers.run_recipe import run_kbert
from tensorflow.core.protobuf import saved_model_pb2

import kbert
from kbert.serving.exported_pipeline import ExportedPipeline
from kbert.serving.saved_model_file import SavedModelFile
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
    """Outside the saver. None of them can be run here: they are only named."""
    assert all(forbidden(op) for op in FILE_OPS)
    content, write = _edited(served_models["single"].path, tmp_path / "1")
    [matmul, *_] = [
        n for f in content.meta_graphs[0].graph_def.library.function for n in f.node_def if n.op == "MatMul"
    ]
    placeholder = content.meta_graphs[0].graph_def.node[0]
    for node in (matmul, placeholder):
        right = node.op
        for op in ("ReadFile", "SaveV2", "RestoreV2", "AssignVariableOp"):  # the last three are a saver's
            node.op = op
            write()
            if (node.op, node) != ("AssignVariableOp", placeholder):  # an initialiser
                assert any(problem.startswith(f"{op} ") for problem in kbert.audit(tmp_path / "1").problems), op
        node.op = right
    write()
    assert kbert.audit(tmp_path / "1").problems == []


def test_savers_are_known_by_their_calls(served_models, tmp_path):
    """Ops that read and write files are allowed in the two functions that the saver calls, and in no others."""
    content, write = _edited(served_models["single"].path, tmp_path / "1")
    saver = content.meta_graphs[0].saver_def
    saver.restore_op_name = saver.save_tensor_name.partition(":")[0]
    write()
    refused = {problem.split()[0] for problem in kbert.audit(tmp_path / "1").problems}
    assert {"SaveV2", "RestoreV2", "AssignVariableOp", "MergeV2Checkpoints"} <= refused


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
        with pytest.raises(ValueError, match="1: TensorFlow cannot load it: ") as error:
            ExportedPipeline(tmp_path / "1")
        assert "\n" not in str(error.value)
    file.unlink()
    with pytest.raises(ValueError, match="1: TensorFlow cannot load it: "):
        ExportedPipeline(tmp_path / "1")


def test_a_number_that_is_no_data_type(served_models, tmp_path):
    content, write = _edited(served_models["single"].path, tmp_path / "1")
    content.meta_graphs[0].signature_def["serving_default"].inputs["text"].dtype = 99
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
    found = [problem for problem in kbert.audit(path).problems if "signature" in problem]
    assert len(found) == 3 and found[0].startswith("classify: a classify signature gives {'classes': 'string'")
    assert found[1].startswith("serving_default: a regress signature takes one input")
    assert SavedModelFile(path).signatures["classify"].kind == "classify"
