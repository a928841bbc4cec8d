"""Exported SavedModels: the answers of Python, in a process without kbert, with ops that stock servers have."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import PAIRS, TEXTS, randomise, tiny_config, tiny_tokenizer
from tensorflow.core.protobuf import saved_model_pb2

import kbert

# reference: TensorFlow Serving's SUPPORTED_TENSORFLOW_OPS; tf-text 2.12.1 is linked into the servers 2.12 to 2.19
TEXT_OPS_OF_SERVERS = {
    "NormalizeUTF8",
    "NormalizeUTF8WithOffsetsMap",
    "CaseFoldUTF8",
    "FindSourceOffsets",
    "FastWordpieceTokenizeWithOffsets",
    "FastBertNormalize",
    "WordpieceTokenizeWithOffsets",
    "RegexSplitWithOffsets",
}
FORBIDDEN = ("HashTable", "LookupTable", "PyFunc", "XlaCallModule", "XlaLaunch", "AssetPath")

KINDS = {
    "single": (
        lambda c: kbert.BertClassifier(c, num_labels=3),
        {"labels": ["bad", "good", "ß 中"], "sequence_length": 11},
    ),
    "pair": (kbert.BertClassifier, {"pair": True}),
    "regression": (kbert.BertRegressor, {"pair": True}),
    "fill_mask": (kbert.BertPretrainer, {"max_masks": 3, "top_k": 4}),
}


def make(kind):
    model, arguments = KINDS[kind]
    # Large enough that the weights outweigh the graph: the test of bytes on disk needs that.
    config = tiny_config(hidden_dim=96, num_heads=2, intermediate_dim=384, num_layers=3, initializer_stddev=0.1)
    pipeline = kbert.build_pipeline(randomise(model(config), scale=0.2), tiny_tokenizer(), **arguments)
    columns = {"text": TEXTS + [b"invalid \xff\xfe utf-8 \xc3", b"nul \x00 film"]}
    if kind == "fill_mask":
        columns = {"text": ["Paris is [MASK].", "the [MASK] [MASK] of [MASK] [MASK]", "no mask", "", b"\xff [MASK]"]}
    if "pair" in arguments:
        columns["text_pair"] = PAIRS + [b"\xf0\x9f", "good"]
    return pipeline, columns


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved_models")
    made = {kind: make(kind) for kind in KINDS}
    return {
        kind: (kbert.export(pipeline, directory / kind), pipeline, columns)
        for kind, (pipeline, columns) in made.items()
    }


@pytest.fixture(params=KINDS)
def exported(request, exports):
    return request.param, *exports[request.param]


def graph_of(path):
    content = saved_model_pb2.SavedModel()
    content.ParseFromString((path / "saved_model.pb").read_bytes())
    return content.meta_graphs[0]


def ops_of(path):
    graph = graph_of(path).graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return {node.op for node in nodes}


def test_the_signature(exported):
    _, path, pipeline, columns = exported
    assert path.name == "1" and {entry.name for entry in path.parent.iterdir()} == {"1"}
    signature = graph_of(path).signature_def["serving_default"]
    assert {name: info.dtype for name, info in signature.inputs.items()} == dict.fromkeys(columns, 7)  # DT_STRING
    assert set(signature.outputs) == set(pipeline.output)
    for name, info in signature.outputs.items():
        dims = [dim.size for dim in info.tensor_shape.dim]
        assert dims[0] == -1 and all(size > 0 for size in dims[1:]), name  # batch first, the rest static
        assert not name.endswith("_bytes")


@pytest.fixture(scope="module")
def fresh_process(exports, tmp_path_factory):
    """What a process that never imports kbert finds: answers of each export, and ops that core TensorFlow lacks."""
    directory = tmp_path_factory.mktemp("fresh")
    jobs = {kind: (str(path), columns, sorted(ops_of(path))) for kind, (path, _, columns) in exports.items()}
    np.save(directory / "jobs.npy", jobs, allow_pickle=True)
    program = """
import sys
import numpy as np, tensorflow as tf
from tensorflow.python.framework import op_def_registry
jobs = np.load(sys.argv[1] + "/jobs.npy", allow_pickle=True).item()
results = {kind: {"foreign": [op for op in job[2] if op_def_registry.get(op) is None]} for kind, job in jobs.items()}
import tensorflow_text
for kind, (path, columns, _) in jobs.items():
    serve = tf.saved_model.load(path).signatures["serving_default"]
    for case, some in [("all", slice(None)), ("one", slice(1, 2)), ("none", slice(0, 0))]:
        answers = serve(**{name: tf.constant(column[some], tf.string) for name, column in columns.items()})
        results[kind][case] = {name: value.numpy() for name, value in answers.items()}
assert not any(name.split(".")[0] == "kbert" for name in sys.modules)
np.save(sys.argv[1] + "/results.npy", results, allow_pickle=True)
"""
    environment = {"PATH": "/usr/bin:/bin", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-P", "-c", program, str(directory)], cwd=directory, env=environment, check=True)
    return np.load(directory / "results.npy", allow_pickle=True).item()


def test_answers_in_a_fresh_process_without_kbert(exported, fresh_process):
    kind, _, pipeline, columns = exported
    for case, rows in [("all", slice(None)), ("one", slice(1, 2)), ("none", slice(0, 0))]:
        answers, expected = fresh_process[kind][case], pipeline(columns)
        assert answers.keys() == expected.keys()
        for name, value in expected.items():
            if value.dtype == tf.string:
                np.testing.assert_array_equal(answers[name], value.numpy()[rows], err_msg=name)
            else:
                np.testing.assert_allclose(answers[name], value.numpy()[rows], atol=1e-5, err_msg=name)


def test_every_weight_is_stored_once(exported):
    _, path, pipeline, _ = exported
    stored = [name for name, _ in tf.train.list_variables(path / "variables/variables") if "OBJECT_GRAPH" not in name]
    stored = [name for name in stored if name != "save_counter/.ATTRIBUTES/VARIABLE_VALUE"]
    assert len(stored) == len(pipeline.model.weights)
    size = sum(file.stat().st_size for file in (path / "variables").iterdir())
    weights = sum(4 * int(np.prod(variable.shape)) for variable in pipeline.model.weights)
    assert weights <= size < 1.1 * weights


def test_only_ops_that_stock_servers_link(exported, fresh_process):
    kind, path, _, _ = exported
    foreign = fresh_process[kind]["foreign"]
    assert foreign, "the tokenizer's own ops must be among them"
    assert set(foreign) <= TEXT_OPS_OF_SERVERS
    assert not [op for op in ops_of(path) if any(word in op for word in FORBIDDEN)]
    assert not [file for file in path.rglob("*") if file.is_file() and file.parent.name == "assets"]


def test_no_function_is_compiled_by_xla(exported):
    _, path, _, _ = exported
    for function in graph_of(path).graph_def.library.function:
        assert not function.attr["_XlaMustCompile"].b, function.signature.name


def test_versions(tmp_path):
    pipeline, _ = make("regression")
    directory = tmp_path / "models" / "score"
    assert kbert.export(pipeline, directory) == directory / "1"
    assert kbert.export(pipeline, str(directory), version=7) == directory / "7"
    assert kbert.export(pipeline, directory) == directory / "8"
    with pytest.raises(FileExistsError, match=r"version 7 of .* exists. Versions: \[1, 7, 8\]"):
        kbert.export(pipeline, directory, version=7)
    for version in (0, -1, "2", True):
        with pytest.raises(ValueError, match="positive integer"):
            kbert.export(pipeline, directory, version=version)
    (directory / "card.json").write_text("{}")
    assert kbert.export(pipeline, directory) == directory / "9"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/notes.txt").write_text("precious")
    with pytest.raises(FileExistsError, match="notes.txt"):
        kbert.export(pipeline, tmp_path / "thesis")
    with pytest.raises(TypeError, match="build_pipeline"):
        kbert.export(pipeline.model, tmp_path / "other")
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError, match="which is a file"):
        kbert.export(pipeline, tmp_path / "file")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "models", "thesis"]


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    import kbert.serving.export as module

    def fail(directory, endpoints):
        pathlib.Path(directory).mkdir()
        (pathlib.Path(directory) / "saved_model.pb").write_text("half")
        raise OSError("No space left on device")

    monkeypatch.setattr(module, "write_saved_model", fail)
    with pytest.raises(OSError, match="No space"):
        kbert.export(make("regression")[0], tmp_path / "score")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in tmp_path.iterdir()} <= {"score"}


def test_a_pipeline_trained_under_a_strategy_and_mixed_precision(tmp_path):
    config, tokenizer = tiny_config(), tiny_tokenizer()
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        pipeline = kbert.build_pipeline(kbert.BertClassifier(config, dtype="mixed_bfloat16"), tokenizer)
    expected = pipeline({"text": TEXTS})
    loaded = tf.saved_model.load(kbert.export(pipeline, tmp_path / "mixed"))
    answers = loaded.signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(answers["probabilities"], expected["probabilities"], atol=1e-5)
    np.testing.assert_array_equal(answers["label"], expected["label"])
