"""benchmark.py --peers: each peer in its best setting, torch in a process of its own; the table."""

import functools
import json
import sys

import keras
import numpy as np
import pytest
from benchmarks import peak, peers, torch_worker
from benchmarks.peers import WORKS, TorchPeer, fastest_setting, race, timed, torch_config, torch_settings
from benchmarks.settings import BenchmarkSettings
from benchmarks.table import measure_table, table_lines
from helpers.run_recipe import RECIPES, run_recipe
from helpers.tiny_bert import tiny_config

(NAME,) = WORKS["encode"]
JOB = {"batch_size": 2, "sequence_length": 9, "max_predictions": 3}


def at(*rates):
    """A runner of the given rates, one for each call."""
    left = iter(rates)
    return lambda seconds: [(rate, rate / 2) for rate in next(left)]


def test_the_race_takes_medians_and_does_not_count_the_first_call():
    rates = race({"kbert": at([1.0], [5.0, 7.0], [6.0, 100.0]), "peer": at([9.0], [2.0], [4.0])}, 1.0, rounds=2)
    assert rates == {"kbert": (6.5, 3.25), "peer": (3.0, 1.5)}


def test_the_fastest_setting():
    assert fastest_setting("peer", {"XLA off": at([9.0], [3.0]), "XLA on": at([1.0], [4.0])}, 1.0) == "XLA on"
    assert fastest_setting("peer", {"the only one": at()}, 1.0) == "the only one"  # needs no trial


def test_a_timed_function_is_called_at_least_once():
    assert [(nominal > 0, nominal / real) for nominal, real in timed(lambda: (4, 2))(0.0)] == [(True, 2.0)]


def test_torch_runs_in_the_precision_of_the_policy():
    pytest.importorskip("transformers")
    assert torch_settings("float32") == ["float32, tuned allocator", "float32, default allocator"]
    assert len(torch_settings("mixed_bfloat16")) == 4
    assert all("bfloat16" in setting for setting in torch_settings("mixed_bfloat16"))


@pytest.mark.parity
@pytest.mark.parametrize("setting", ["float32", "autocast bfloat16", "bfloat16 model"])
def test_the_work_of_torch(setting):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    job = JOB | {"work": "train", "setting": f"{setting}, tuned allocator", "config": torch_config(tiny_config())}
    types = []
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, inputs, output: types.append(output.dtype) if isinstance(module, torch.nn.Linear) else None
    )
    try:
        for prepare in (torch_worker._encode, torch_worker._train):
            times = torch_worker._answer(prepare(job), {"units": 2})["seconds"]
            assert len(times) == 2 and min(times) > 0
    finally:
        handle.remove()
    assert set(types) == {torch.float32 if setting == "float32" else torch.bfloat16}


@pytest.mark.parity
def test_the_head_of_torch_on_the_masked_positions_has_the_same_loss():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    config = torch_config(tiny_config()) | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    rows, losses = {}, {}

    def count_rows(module, inputs, output):
        if isinstance(module, torch.nn.Linear) and module.out_features == config["vocab_size"]:
            rows[work].append(output.shape[:-1].numel())

    handle = torch.nn.modules.module.register_module_forward_hook(count_rows)
    try:
        for work in WORKS["train"].values():
            torch.manual_seed(0)
            rows[work] = []
            step = torch_worker._train(JOB | {"work": work, "setting": "float32, tuned allocator", "config": config})
            losses[work] = [step().item() for _ in range(3)]
    finally:
        handle.remove()
    assert rows == {"train": [2 * 9] * 3, "train_masked_positions": [2 * 3] * 3}
    np.testing.assert_allclose(losses["train_masked_positions"], losses["train"], rtol=1e-5)
    assert losses["train"][2] < losses["train"][0]  # one and the same batch is learned


STAND_IN = f"""
import sys
sys.path.insert(0, {str(RECIPES)!r})
from benchmarks import torch_worker
torch_worker._encode = lambda job: lambda: None
torch_worker.main()
"""


@pytest.mark.parametrize("encodes", ["stand-in", pytest.param("torch", marks=[pytest.mark.parity, pytest.mark.slow])])
def test_torch_in_a_process_of_its_own(encodes, tmp_path, monkeypatch):
    """What torch does there: test_the_work_of_torch."""
    config = {}
    if encodes == "torch":
        pytest.importorskip("transformers")
        config = torch_config(tiny_config())
    else:
        (tmp_path / "worker.py").write_text(STAND_IN)
        monkeypatch.setattr(peers, "_WORKER", tmp_path / "worker.py")
    peer = TorchPeer("encode", "float32, tuned allocator", config=config, **JOB)
    try:
        assert len(peer.seconds(units=3)) == 3
    finally:
        peer.close()
    lost = TorchPeer("no such work", "float32, default allocator")
    with pytest.raises(RuntimeError, match="float32, default allocator: its process ended with status 1"):
        lost.seconds(units=1)


ROW = """
import json, sys
part, more = sys.argv[1], sys.argv[2:]
row = {"part": part, "precision": more[more.index("--precision") + 1], "batch_size": 8, "sequence_length": 128}
if part == "serve":
    assert "--frozen-weights" in more
    row |= {"model": "mini-lm", "frozen_weights": True,
            "short_p50_ms": 9.0, "long_p50_ms": 30.0, "mixed_texts_per_second": 350.0,
            "transformers": {"tuned": {"short_p50_ms": 9.9, "long_p50_ms": 33.0, "mixed_texts_per_second": 70.0}},
            "ratios": {"short_p50": 1.1}}
else:
    row |= {"size": more[1], "tokens_per_second": 3000.0, "fraction_of_matmul_peak": 0.5,
            "matmul_peak_gflops_per_second": 400.0,
            "fraction_of_model_matmul": 0.8, "model_matmul_gflops_per_second": 250.0,
            "peers": {"hub": 2000.0}, "peer_settings": {"kbert": "XLA off", "hub": "XLA on"}}
assert "--peers" in more and more[more.index("--rounds") + 1] == "2"
print("a line before the result")
print(json.dumps(row))
"""


def test_the_table_has_a_row_for_every_benchmark():
    settings = BenchmarkSettings(peers=True, rounds=2, model="mini-lm", frozen_weights=True)
    table = measure_table([sys.executable, "-c", ROW], settings)
    lines = table_lines(table)
    assert len(table["rows"]) == len(lines) - 4 == 10 and table["cores"] > 0 and "keras" in table["versions"]
    speed = "| train mini, 8 × 128, float32 | 3,000 tokens/s (XLA off) | 50% of 400 GFLOP/s | 80% of 250 GFLOP/s"
    assert f"{speed} | hub (XLA on) 2,000 | 1.50 times as fast |" in lines
    assert lines[-1].startswith(
        "| serve mini-lm, mixed_bfloat16, frozen weights | 9.0 ms short, 30.0 ms long, 350 texts/s |"
    )
    assert lines[-1].endswith("(tuned) 9.9 ms short, 33.0 ms long, 70 texts/s | 1.10 times as fast (short_p50) |")
    with pytest.raises(RuntimeError, match="ended with status 1"):
        measure_table([sys.executable, "-c", "raise SystemExit(1)"], settings)


@pytest.fixture
def torch_closed(monkeypatch):
    """Torch is a stand-in, and the peak that of small squares; the settings whose processes have been closed."""

    class Torch:
        def __init__(self, work, setting, **job):
            self.job, self.speed = {"setting": setting}, 2.0 if "tuned" in setting else 1.0

        def seconds(self, **request):
            return [1.0 / self.speed]

        def close(self):
            closed.append(self.job["setting"])

    closed = []
    monkeypatch.setattr(peers, "TorchPeer", Torch)
    monkeypatch.setattr(peers, "torch_settings", lambda precision: [f"{precision}, tuned", f"{precision}, default"])
    monkeypatch.setattr(peak, "matmul_peak", functools.partial(peak.matmul_peak, size=64))
    return closed


ENCODE = ("encode", "--size", "tiny", "--batch-size", "2", "--sequence-length", "8", "--seconds", "0.05")
WITH_PEERS = (*ENCODE, "--rounds", "1", "--peers")


@pytest.mark.usefixtures("eagerly")
def test_encoding_with_peers_names_their_settings(torch_closed, capsys):
    run_recipe("benchmark", *WITH_PEERS, "--json")
    captured = capsys.readouterr()
    result = json.loads(captured.out.splitlines()[-1])
    assert result["peer_settings"][NAME] == "float32, tuned" and result["peers"][NAME] == pytest.approx(32.0)
    for name in ("kbert", "keras_hub.BertBackbone"):
        assert result["peer_settings"][name] in ("XLA on", "XLA off", "XLA off, frozen weights")
    assert torch_closed == ["float32, default", "float32, tuned", "float32, default"]  # the slower one before the race
    assert np.isfinite(result["fraction_of_matmul_peak"]) and "float32, tuned" in captured.out
    for setting in ("XLA on", "XLA off", "XLA off, frozen weights"):
        assert captured.err.count(f", {setting}: ") == 2  # a trial of kbert and one of keras-hub


@pytest.mark.slow  # in float32: test_encoding_with_peers_names_their_settings
@pytest.mark.usefixtures("eagerly", "torch_closed")
def test_in_half_precision_weights_are_stored_in_both_types(capsys):
    try:
        run_recipe("benchmark", *WITH_PEERS, "--precision", "mixed_bfloat16")
    finally:
        keras.config.set_dtype_policy("float32")
    logged = capsys.readouterr().err
    for setting in ("XLA on", "XLA off", "XLA on, weights in bfloat16", "XLA off, weights in bfloat16"):
        assert logged.count(f", {setting}: ") == 2  # a trial of kbert and one of keras-hub
