"""The benchmarks: turns of processes, and the work of each system once at toy size."""

import functools
import time
import types

import encoding_speed
import fit_speed
import input_speed
import int8_speed
import numpy as np
import pytest
import serving_speed
import tokenizer_speed
import torch_peer
import training_speed
import turns
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer
from helpers.tiny_corpus import VOCABULARY, make_documents, make_tokenizer, write_lines

import kbert
from kbert.corpus.documents import read_documents
from kbert.corpus.write_records import write_records

SIZES = (tiny_config(max_sequence_length=24), 2, 24)  # rows and tokens of a batch


def test_systems_take_turns_in_processes_of_their_own():
    wait = functools.partial(turns.timed, functools.partial(time.sleep, 0.01))
    found = turns.take_turns({"waiting": wait}, rounds=2, seconds=0.05)["waiting"]
    assert len(found.seconds) >= 2 and min(found.seconds) >= 0.01 and found.memory > 10
    assert np.median(found.processor) < 0.005
    with pytest.raises(RuntimeError, match="no number: its process ended"):
        turns.take_turns({"no number": functools.partial(int, "x")}, rounds=1, seconds=0.0)


def test_the_report_compares_with_the_first_system(capsys):
    one = turns.Measured([0.5, 0.5, 9.0], [0.25] * 3, 100.0)
    turns.report({"kbert": one, "other": one._replace(seconds=[1.0])}, units=1000)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| kbert | 2,000 | 4,000 | 100 | 1.00 times as fast |",
        "| other | 1,000 | 4,000 | 100 | 2.00 times as fast |",
    ]


@pytest.mark.slow  # the turns: above
def test_a_script_prints_the_speed_of_each_system(monkeypatch, capsys):
    training_speed.main("tiny", 2, 24, "float32", 0.0, False, rounds=1, seconds=0.1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| kbert | ") and lines[2].endswith("| 1.00 times as fast |")
    assert lines[4].startswith("kbert: ") and lines[4].endswith("of the peak of square matrix products")


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("system", slow_but(("kbert",), ("kbert", "keras-hub")))
def test_steps_of_training(system, monkeypatch):
    monkeypatch.setattr(training_speed, "STEPS", 1)
    if system == "kbert":
        work = training_speed.kbert_steps(*SIZES, "float32")
    else:
        pytest.importorskip("keras_hub")
        work = training_speed.hub_steps(*SIZES, "float32", False)
    for _ in range(2):
        [(seconds, _)] = work()
        assert seconds > 0


def test_synthetic_batches_have_no_padding():
    inputs, labels, weights = training_speed.synthetic_batch(*SIZES)
    assert inputs["padding_mask"].all() and weights["mlm_logits"].all() and labels["nsp_logits"].shape == (2,)
    assert (np.diff(inputs["mask_positions"]) > 0).all() and inputs["mask_positions"].shape == (2, 20)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("library, way", [("kbert", ""), ("kbert", "frozen"), ("keras-hub", "")])
def test_encoding(library, way):
    if library == "keras-hub":
        pytest.importorskip("keras_hub")
    [(seconds, _)] = encoding_speed.keras_encoding(*SIZES, "float32", library, way, None)()
    assert seconds > 0


def test_the_peak_of_products(monkeypatch):
    monkeypatch.setattr(training_speed, "matmul_peak", lambda precision, seconds: 4e9)
    assert training_speed.square_products("float32")() == [(1 / 4e9, 0.0)]


def test_matmul_peak_is_a_speed():
    peak = training_speed.matmul_peak("mixed_bfloat16", size=128, seconds=0.05)
    assert 1e8 < peak < 1e16


def test_a_product_of_square_matrices_has_2_n_cubed_operations(monkeypatch):
    times = iter([0.0, 10.0, 10.5, 11.0])  # it takes half a second, and then the time is over
    monkeypatch.setattr(training_speed, "time", types.SimpleNamespace(perf_counter=lambda: next(times)))
    assert training_speed.matmul_peak(size=64, seconds=1.0) == 2 * 64**3 / 0.5


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A tiny encoder in Hugging Face's format, and its export."""
    path = tmp_path_factory.mktemp("model")
    encoder = randomise(kbert.BertEncoder(tiny_config(num_layers=1, max_sequence_length=64)), scale=0.3)
    kbert.save_pretrained(encoder, path / "hub", tokenizer=tiny_tokenizer(), format="huggingface")
    pipeline = kbert.build_pipeline(kbert.load_pretrained(path / "hub", "encoder"), pair=False, sequence_length=64)
    return path / "hub", kbert.export(pipeline, path / "exported")


def test_serving(exported):
    texts = serving_speed.mixed_texts(4)
    assert serving_speed.embed_by_saved_model(exported[1], texts)().shape == (4, 12)
    [(seconds, _)] = serving_speed.saved_model(exported[1], texts)()
    assert seconds > 0 and serving_speed.time_loading(exported[1])()[0][0] > 0


def test_texts_of_requests():
    lengths = [len(text.split()) for text in serving_speed.mixed_texts(32)]
    assert min(lengths) == 2 and max(lengths) > 80 and 150 < len(serving_speed.LONG.split()) < 250


@pytest.mark.parity
def test_torch_serves_the_same_vectors(exported):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    texts = [serving_speed.SHORT, *serving_speed.mixed_texts(4)]
    ours = serving_speed.embed_by_saved_model(exported[1], texts)()
    theirs = torch_peer.serving_call(exported[0], texts, 64, "float32, default allocator")().numpy()
    np.testing.assert_allclose(ours / np.linalg.norm(ours, axis=1, keepdims=True), theirs, atol=1e-4)


@pytest.mark.parity
@pytest.mark.parametrize("setting", ["float32", "autocast bfloat16", "bfloat16 model"])
def test_torch_runs_in_the_precision_of_its_setting(setting):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    types = []

    def note(module, inputs, output):
        if isinstance(module, torch.nn.Linear):
            types.append(output.dtype)

    handle = torch.nn.modules.module.register_module_forward_hook(note)
    try:
        assert torch_peer.torch_encoding(*SIZES, f"{setting}, tuned allocator")()[0][0] > 0
        assert torch_peer.torch_training(*SIZES, 3, f"{setting}, tuned allocator", True)()[0][0] > 0
    finally:
        handle.remove()
    assert set(types) == {torch.float32 if setting == "float32" else torch.bfloat16}
    assert len(torch_peer.torch_settings("mixed_bfloat16")) == 4


@pytest.mark.parity
def test_the_head_of_torch_on_the_masked_positions_has_the_same_loss():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    config = tiny_config(max_sequence_length=24, hidden_dropout=0.0, attention_dropout=0.0)
    losses = []
    for on_all_positions in (True, False):
        torch.manual_seed(0)
        step = torch_peer.training_step(config, 2, 24, 3, "float32, default allocator", on_all_positions)
        losses.append([step().item() for _ in range(3)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert losses[0][2] < losses[0][0]  # one and the same batch is learned


@pytest.mark.parametrize("system", ["kbert", "keras-hub", "tokenizers"])
def test_tokenizing(system):
    lines, tokens = ["the film is good .", "a b c"] * 9, tiny_tokenizer().vocabulary
    if system == "tokenizers":
        pytest.importorskip("tokenizers")
        work = tokenizer_speed.encode_batch(lines, tokens)
    else:
        if system == "keras-hub":
            pytest.importorskip("keras_hub")
        work = tokenizer_speed.through_tf_data(system, lines, tokens)
    assert work()[0][0] > 0


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Records, and text with a vocabulary."""
    path = tmp_path_factory.mktemp("data")
    write_lines(path / "corpus.txt", make_documents(30, sizes=(2, 5)))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    write_records(read_documents(path / "corpus.txt"), make_tokenizer(), path / "records", held_out=0.1)
    return path


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("packed", slow_but([True], [True, False]))
def test_steps_that_the_pipeline_feeds(corpus, monkeypatch, packed):
    for module in (input_speed, training_speed):
        monkeypatch.setattr(module, "STEPS", 1)
    monkeypatch.setattr(input_speed, "BATCHES", 2)
    data = functools.partial(input_speed.batches, corpus / "records", 2, 24, packed)
    for is_fed in (False, True):
        assert input_speed.steps(data, "tiny", 24, "float32", packed, is_fed)()[0][0] > 0
    assert input_speed.make_batches(data)()[0][0] > 0


@pytest.mark.usefixtures("eagerly")
def test_fits_on_strings(corpus):
    tokenizer = make_tokenizer()
    words = " ".join(tokenizer_speed.prose_lines(str(corpus / "corpus.txt"))).split()
    texts = fit_speed.full_rows(words, tokenizer, 22, 4)
    assert len(texts) == 4 and all(18 < len(ids) <= 22 for ids in tokenizer(texts))
    config = tiny_config(vocabulary_size=len(VOCABULARY), max_sequence_length=24)
    for prepare in (fit_speed.fit_on_strings, fit_speed.fit_on_batches):
        assert prepare(texts, VOCABULARY, config, 2, 24)()[0][0] > 0


def test_batches_for_the_peers_of_the_int8_benchmark():
    found = int8_speed.batch([[101, 7, 102], [101, 102]])
    assert found["input_ids"].tolist() == [[101, 7, 102], [101, 102, 0]]
    assert found["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]


def test_requests_and_table_of_the_int8_benchmark(capsys):
    loads = int8_speed.loads()
    assert tuple(loads) == int8_speed.LOADS
    assert [len(each) for each in loads["256 tokens"]] == [1] and len(loads["32 mixed"][0]) == 32
    lengths = [len(request[0].split()) for request in loads["120 lengths"]]
    assert len(set(lengths)) == 120 and lengths != sorted(lengths)
    results = {"mini | 1 | kbert int8": [dict.fromkeys(loads, 2.0), dict.fromkeys(loads, 1.5)], "mini | 1 | torch": []}
    int8_speed.print_table(results)
    assert capsys.readouterr().out.splitlines()[2:] == ["| mini | 1 | kbert int8 | 1.5 | 1.5 | 1.5 | 1.5 |"]
