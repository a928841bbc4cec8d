"""Exported SavedModels: the answers of Python, in a process without kbert, with all that a server wants beside them."""

import hashlib
import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers.compare import assert_same_answers
from helpers.served_models import SIGNATURES, make_pipeline, warmup_requests
from helpers.tiny_bert import TEXTS, tiny_config, tiny_tokenizer

import kbert
from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.serving.saved_model_file import SavedModelFile
from kbert.serving.signatures import signatures
from kbert.serving.warmup import BATCH_SIZES, encode_example
from kbert.text.vocabulary import write_vocabulary


def test_the_signatures(served):
    assert served.path.name == "1" and {entry.name for entry in served.path.parent.iterdir()} == {"1"}
    signatures = SavedModelFile(served.path).signatures
    assert set(signatures) == {"serving_default"} | SIGNATURES[served.kind]
    default = signatures["serving_default"]
    assert list(default.inputs) == sorted(served.columns) and set(default.outputs) == set(served.pipeline.output)
    for name, signature in signatures.items():
        assert {spec.dtype for spec in signature.inputs.values()} == {"string"}
        assert signature.kind == (name if name in ("classify", "regress") else "predict")
        for output, spec in signature.outputs.items():
            assert spec.shape[0] is None and not output.endswith("_bytes")


def test_names_of_the_same_answers_share_one_function(served):
    shared = {"fill_mask", "next_sentence", "answer", "tag", "choose"} & SIGNATURES[served.kind]
    if served.kind == "fill_mask":
        shared -= {"next_sentence"}  # another output of the model
    made = served.signatures
    assert {name for name in made if made[name] is made["serving_default"]} == {"serving_default", *shared}


def test_padded_outputs_are_as_wide_in_every_batch(served):
    """A server that cuts a request into batches can put the answers together only if their shapes agree."""
    if served.kind in ("tagging", "multiple_choice"):
        pytest.skip("as wide as the batch's longest text, or as there are choices: docs/serving.md says so")
    for signature in SavedModelFile(served.path).signatures.values():
        for name, spec in signature.outputs.items():
            assert all(size for size in spec.shape[1:]), name


IN_PYTHON = ("single", "span", "tagging")  # every kind, in a process that has no Python at all: test_c_api.py


@pytest.fixture(scope="module")
def fresh_process(served_models, tmp_path_factory):
    """What a process that never imports kbert answers: some models' serving_default, on all rows, on one, on none."""
    directory = tmp_path_factory.mktemp("fresh")
    jobs = {kind: (str(served_models[kind].path), served_models[kind].columns) for kind in IN_PYTHON}
    np.save(directory / "jobs.npy", jobs, allow_pickle=True)
    program = """
import sys
import numpy as np, tensorflow as tf, tensorflow_text
jobs = np.load(sys.argv[1] + "/jobs.npy", allow_pickle=True).item()
results = {}
for kind, (path, columns) in jobs.items():
    serve = tf.saved_model.load(path).signatures["serving_default"]
    results[kind] = []
    for rows in (slice(None), slice(1, 2), slice(0, 0)):
        answers = serve(**{name: tf.constant(column, tf.string)[rows] for name, column in columns.items()})
        results[kind].append({name: value.numpy() for name, value in answers.items()})
assert not any(name.split(".")[0] == "kbert" for name in sys.modules)
np.save(sys.argv[1] + "/results.npy", results, allow_pickle=True)
"""
    environment = {"PATH": "/usr/bin:/bin", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-P", "-c", program, str(directory)], cwd=directory, env=environment, check=True)
    return np.load(directory / "results.npy", allow_pickle=True).item()


@pytest.mark.parametrize("kind", IN_PYTHON)
def test_answers_in_a_fresh_process_without_kbert(served_models, kind, fresh_process):
    served = served_models[kind]
    expected = served.pipeline(served.columns)
    for answers, rows in zip(fresh_process[served.kind], (slice(None), slice(1, 2), slice(0, 0)), strict=True):
        some = {name: value.numpy()[rows] for name, value in expected.items()}
        if served.kind == "tagging":  # as wide as the longest text asked
            width = answers["words"].shape[1]
            some = {name: value[:, :width] if value.ndim == 2 else value for name, value in some.items()}
        assert_same_answers(answers, some)


def test_every_weight_is_stored_once(served):
    stored = [name for name, _ in tf.train.list_variables(served.path / "variables/variables")]
    stored = [name for name in stored if "OBJECT_GRAPH" not in name and not name.startswith("save_counter")]
    model = served.pipeline.model
    assert len(stored) <= len(model.weights)  # a head or a pooler that no signature asks is left out
    size = sum(file.stat().st_size for file in (served.path / "variables").iterdir())
    weights = sum(4 * int(np.prod(variable.shape)) for variable in model.weights)
    assert size < 1.1 * weights
    assert not [file for file in served.path.rglob("*") if file.is_file() and file.parent.name == "assets"]


def test_warm_up_requests_are_answered(served):
    signatures = served.loaded
    sizes = {name: [] for name in signatures}
    for kind, name, columns in warmup_requests(served.path):
        assert kind == served.signatures[name].kind
        columns = {key: tf.constant(value) for key, value in columns.items()}
        size = len(next(iter(columns.values())))
        sizes[name].append(size)
        if size <= 2:
            for output in signatures[name](**columns).values():
                assert output.shape[0] == size
    assert sizes == {name: list(BATCH_SIZES) for name in signatures}
    parameters = (served.path / "batching_params.pbtxt").read_text()
    assert f"max_batch_size {{ value: {BATCH_SIZES[-1]} }}\n" in parameters
    assert re.findall(r"^allowed_batch_sizes: (\d+)$", parameters, re.MULTILINE) == [str(size) for size in BATCH_SIZES]


def test_the_card(served, tmp_path):
    card = json.loads((served.path / "card.json").read_text("utf-8"))
    pipeline = served.pipeline
    assert (card["name"], card["version"], card["task"]) == (served.kind, 1, pipeline.model.task)
    assert card["labels"] == pipeline.settings().get("labels") and card["metrics"] == {"accuracy": 0.5}
    vocabulary = pipeline.tokenizer.vocabulary
    write_vocabulary(tmp_path / "vocab.txt", vocabulary)
    digest = hashlib.sha256((tmp_path / "vocab.txt").read_bytes()).hexdigest()
    assert card["vocabulary"] == {"tokens": len(vocabulary), "sha256": digest}
    assert card["versions"]["kbert"] == kbert.__version__ and card["versions"]["tensorflow"] == tf.__version__
    assert set(card["signatures"]) == {"serving_default"} | SIGNATURES[served.kind]
    assert set(card["versions"]) == {"kbert", "keras", "tensorflow", "tensorflow-text"}
    loaded = served.loaded
    for name, described in card["signatures"].items():
        request, method = described["example"], described["method"]
        assert request["path"] == f"/v1/models/{served.kind}/versions/1:{method}"
        assert request["body"].pop("signature_name") == name
        if method == "predict":
            columns = request["body"].pop("inputs")
            assert set(columns) == set(described["inputs"])
        else:
            columns = {"inputs": [encode_example(example) for example in request["body"].pop("examples")]}
        assert not request["body"]
        answers = loaded[name](**{key: tf.constant(value, tf.string) for key, value in columns.items()})
        assert set(answers) == set(described["outputs"])
        for key, value in answers.items():
            told = described["outputs"][key]
            assert told["dtype"] == value.dtype.name and told["shape"][0] == "batch" and value.shape[0] == 1


def test_where_there_is_no_choice_none_is_answered(served_models):
    """Empty choices, blank ones, ones that the tokenizer deletes, and no choices at all, beside one that is there."""
    choose = served_models["multiple_choice"].loaded["choose"]
    choices = [["", ""], [" ", "\t\n"], ["\x00", "\u200d"], [b"\xff", ""], ["", "good"]]
    answers = choose(prompt=tf.constant(["a film"] * 5), choices=tf.constant(choices))
    assert answers["choice"].numpy().tolist() == [-1, -1, -1, -1, 1]
    assert answers["probabilities"].numpy().tolist() == [[0, 0]] * 4 + [[0, 1]]
    answers = choose(prompt=tf.constant(["a film"]), choices=tf.zeros([1, 0], tf.string))
    assert answers["choice"].numpy().tolist() == [-1] and answers["probabilities"].shape == (1, 0)


def test_embeddings_pool_the_tokens(served_models):
    served = served_models["encoder"]
    batch = served.pipeline.preprocessor(TEXTS)
    states = served.pipeline.model({name: batch[name] for name in served.pipeline.model.input})["sequence_output"]
    answers = served.loaded["embed"](text=tf.constant(TEXTS))
    for row, (state, mask) in enumerate(zip(states.numpy(), batch["padding_mask"].numpy(), strict=True)):
        for name, vector in (("mean", state[mask].mean(0)), ("max", state[mask].max(0)), ("cls", state[0])):
            expected = vector / np.linalg.norm(vector)  # this pipeline normalises
            np.testing.assert_allclose(answers[name][row], expected, atol=1e-5, rtol=0, err_msg=name)
    np.testing.assert_array_equal(answers["embedding"], answers["mean"])


def test_the_next_sentence_head_beside_fill_mask(served_models):
    served = served_models["fill_mask"]
    model, texts, pairs = served.pipeline.model, ["a [MASK] film", "good"], ["is it?", "[SEP]"]
    batch = TextPreprocessor(tiny_tokenizer(), served.pipeline.preprocessor.sequence_length, pair=True)(
        {"text": texts, "text_pair": pairs}
    )
    batch["mask_positions"] = tf.zeros([2, 1], tf.int32)
    expected = tf.nn.softmax(model({name: batch[name] for name in model.input})["nsp_logits"])[:, 0]
    ask = served.loaded["next_sentence"]
    answers = ask(text=tf.constant(texts), text_pair=tf.constant(pairs))
    np.testing.assert_allclose(answers["is_next"], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("reads", [True, False])
def test_special_tokens_in_the_text_mean_the_same_on_a_server(reads):
    """To the next-sentence head beside fill-mask as to a pipeline of it."""
    model, tokenizer = kbert.BertPretrainer(tiny_config()), tiny_tokenizer(special_tokens_in_text=reads)
    columns = {"text": tf.constant(["a [MASK] film"]), "text_pair": tf.constant(["good"])}
    batch = signatures(kbert.build_pipeline(model, tokenizer))["next_sentence"].preprocess(*columns.values())
    expected = TextPreprocessor(tokenizer, batch["token_ids"].shape[1], pair=True)(columns)
    np.testing.assert_array_equal(batch["token_ids"], expected["token_ids"])


def test_a_pretrainer_without_next_sentence_and_an_encoder_of_pairs():
    masked_lm = kbert.build_pipeline(kbert.BertPretrainer(tiny_config(), next_sentence=False), tiny_tokenizer())
    assert set(signatures(masked_lm)) == {"serving_default", "fill_mask"}
    pairs = kbert.build_pipeline(kbert.BertEncoder(tiny_config()), tiny_tokenizer(), pair=True)
    assert {name: list(one.inputs) for name, one in signatures(pairs).items()} == dict.fromkeys(
        ("serving_default", "embed", "tokenize", "features"), ["text", "text_pair"]
    )


def test_features_are_the_hidden_states(served_models):
    served = served_models["encoder"]
    loaded = served.loaded["features"]
    answers = loaded(text=tf.constant(TEXTS))
    encoder = kbert.BertEncoder(served.pipeline.model.config, outputs=["hidden_states"])
    encoder.set_weights(served.pipeline.model.get_weights())
    batch = served.pipeline.preprocessor(TEXTS)
    states = encoder({name: batch[name] for name in encoder.input})["hidden_states"]
    is_token = batch["padding_mask"].numpy()
    assert answers["features"].shape == (len(TEXTS), 13, 4, 96) and not answers["features"].numpy()[~is_token].any()
    for k, layer in enumerate((-1, -2, -3, -4)):
        np.testing.assert_allclose(
            answers["features"].numpy()[is_token, k], states[layer].numpy()[is_token], atol=1e-5, rtol=0
        )
    assert answers["count"].numpy().tolist() == is_token.sum(axis=1).tolist()


_LOOP = {}
_LOOP["loop"] = _LOOP
_LIMITS = ("max_request_bytes", "max_request_tokens")
_CARD = ("metrics", "made_by")
_LAYERS = "`NAME` must be a list.* Received: VALUE"


@pytest.mark.parametrize(
    "kind, names, values, message",
    [
        ("encoder", ["layers"], [[-1, 9], [], -1, "12", [0.5], [True]], _LAYERS),
        ("single", ["layers"], [[-1]], "the task classification does not take .'NAME'."),
        ("regression", ["version"], [0, -1, "2", True], "`NAME` must be a positive integer or None. Received: VALUE"),
        ("regression", ["version"], [2**63], f"export: `NAME` must be at most {2**63 - 1}"),
        ("regression", _LIMITS, [0, -1, 1.5, True, "1"], "`NAME` must be a positive integer. Received: VALUE"),
        ("regression", _LIMITS, [2**63], "export: limits must be less than .*Received: .'NAME'"),
        ("encoder", ["max_request_tokens"], [12], "`NAME` must allow one row .*, 13. Received: 12"),
        ("regression", _CARD, [[1], 0], "export: `NAME` must be a dict.* Received: VALUE"),
        ("regression", _CARD, [{"x": np.float32(0.5)}], "export: `NAME` must fit into JSON .*float32 is not JSON"),
        ("regression", _CARD, [{"x": float("nan")}], "export: `NAME` must fit into JSON .*nan"),
        ("regression", _CARD, [{("a", 1): 2}], "export: `NAME` must fit into JSON .*keys must be"),
        ("regression", _CARD, [_LOOP], "export: `NAME` must fit into JSON"),
    ],
)
def test_wrong_arguments_are_refused_before_the_work(kind, names, values, message, tmp_path, monkeypatch):
    monkeypatch.setattr("kbert.models.write_saved_model.write_saved_model", None)
    pipeline = make_pipeline(kind)[0]
    for name, value in itertools.product(names, values):
        expected = message.replace("NAME", name).replace("VALUE", re.escape(repr(value)))
        with pytest.raises(ValueError, match=expected):
            kbert.export(pipeline, tmp_path / "model", **{name: value})
    assert not list(tmp_path.iterdir())
