"""benchmark.py: what it counts, and what it refuses."""

import json

import pytest
from helpers.run_recipe import as_flags, import_recipe
from helpers.tiny_corpus import VOCABULARY, write_lines

QUICK = as_flags(size="tiny", batch_size="4", sequence_length="25", seconds="0.05", rounds="1", json=True)


def benchmark(capsys, *arguments):
    import_recipe("benchmark").main([str(argument) for argument in (*arguments, *QUICK)])
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_encoding_of_synthetic_batches_has_no_padding(capsys):
    result = benchmark(capsys, "encode")
    assert result["tokens_per_second"] == result["real_tokens_per_second"] > 0
    assert 0 < result["gflops_per_second"] and result["data"] == "synthetic" and result["peak_memory_mib"] > 0


def test_what_tensorboard_costs(capsys):
    result = benchmark(capsys, "board")
    assert result["ms_per_step"] > 0 and result["ms_per_step_with_tensorboard"] > 0 and result["calls"] >= 1
    assert result["overhead"] > -1 and result["processor_overhead"] > -1 and result["size"] == "tiny"


def test_encoding_of_real_batches_counts_their_padding(tmp_path, capsys):
    write_lines(tmp_path / "corpus.txt", [["a b c .", "d e .", "f g h i ."]] * 20)
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    result = benchmark(
        capsys, "encode", "--data", "real", "--corpus", tmp_path / "corpus.txt", "--vocab", tmp_path / "vocab.txt"
    )
    assert 0 < result["real_tokens_per_second"] < result["tokens_per_second"]


def test_real_data_must_be_named(capsys):
    with pytest.raises(SystemExit, match='data="real": expected `corpus` or `records`'):
        benchmark(capsys, "train", "--data", "real")
