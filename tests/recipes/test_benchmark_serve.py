"""benchmark.py serve: the exported model is measured, and the peer only if it answers the same."""

import json

import pytest
from benchmarks import serving
from benchmarks.settings import BenchmarkSettings
from helpers.run_recipe import run_recipe
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert

CONFIG = tiny_config(num_layers=1, max_sequence_length=64)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    encoder = randomise(kbert.BertEncoder(CONFIG), scale=0.3)
    kbert.save_pretrained(encoder, directory / "tiny", tokenizer=tiny_tokenizer())
    return directory / "tiny"


@pytest.mark.slow  # serving/test_client.py
def test_the_figures(model, monkeypatch, capsys):
    monkeypatch.setattr(serving, "_load_alone", lambda path: (0.5, 123))  # a process of its own: see below
    arguments = ["serve", "--model", str(model), "--seconds", "0.05", "--rounds", "1", "--batch-size", "4", "--json"]
    run_recipe("benchmark", *arguments)
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert 0 < result["short_p50_ms"] <= result["short_p95_ms"] <= result["short_p99_ms"]
    assert result["long_p50_ms"] > 0 and result["mixed_texts_per_second"] > 0
    assert result["bytes_on_disk"] > 10_000 and result["batch_size"] == 4
    assert (result["load_seconds"], result["server_memory_mib"]) == (0.5, 123)


@pytest.mark.slow
def test_the_operations_of_encoding_and_of_serving(model, capsys):
    """Each block has six products with weights, and the pooler one."""
    common = ["--seconds", "0.05", "--batch-size", "4", "--sequence-length", "16"]
    for more, blocks in ((["--size", "tiny"], 2), (["--model", str(model)], CONFIG.num_layers)):
        run_recipe("benchmark", "operations", *common, *more, "--json")
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert result["milliseconds"] > 0 and result["frozen_weights"] is False
        found = result["operations"]
        products = sum(one["number"] for kind, one in found.items() if kind.endswith("MatMul"))
        assert products == 6 * blocks + 1
        assert ("long_text_operations" in result) == ("--model" in more)
        total = sum(one["milliseconds"] for one in found.values())
        assert 0 < total and list(found) == sorted(found, key=lambda kind: -found[kind]["milliseconds"])
    run_recipe("benchmark", "operations", *common, "--size", "tiny")
    printed = capsys.readouterr().out
    assert "MatMul" in printed and " ms in 1" in printed


@pytest.mark.slow
def test_loading_in_a_process_of_its_own(model, tmp_path):
    settings = BenchmarkSettings(model=model)
    seconds, memory = serving._load_alone(serving.export_encoder(settings, tmp_path / "exported"))
    assert 0 < seconds < 300 and 50 < memory < 8000


def test_a_peer_that_answers_otherwise_is_no_peer():
    one, two = (lambda texts: (0.1, [[1.0, 0.0]] * len(texts))), (lambda texts: (0.1, [[0.0, 1.0]] * len(texts)))
    near = lambda texts: (0.1, [[1.0, 0.01]] * len(texts))  # noqa: E731
    serving._check_equal({"kbert": one, "transformers": one})
    serving._check_equal({"kbert": one, "transformers": near}, "mixed_bfloat16")
    with pytest.raises(ValueError, match="answer differently"):
        serving._check_equal({"kbert": one, "transformers": near})
    with pytest.raises(ValueError, match="answer differently"):
        serving._check_equal({"kbert": one, "transformers": two})
    with pytest.raises(ValueError, match="expected `model`"):
        serving.serve(BenchmarkSettings())


def test_the_ratios_are_to_the_fastest_setting_for_each_kind_of_request():
    figures = [(6.0, 20.0, 300.0), (9.0, 30.0, 60.0), (12.0, 24.0, 75.0)]
    names = "short_p50_ms", "long_p50_ms", "mixed_texts_per_second"
    timings = {name: dict(zip(names, row, strict=True)) for name, row in zip(("kbert", "a", "b"), figures, strict=True)}
    assert serving._ratios(timings) == {"short_p50": 1.5, "long_p50": 1.2, "mixed_throughput": 4.0}


def test_mixed_texts():
    lengths = [len(text.split()) for text in serving.mixed_texts(32)]
    assert min(lengths) == 2 and max(lengths) > 80 and 150 < len(serving.LONG.split()) < 250
