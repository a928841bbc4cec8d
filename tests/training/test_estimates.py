"""Estimates: FLOPs by the formula of performance.md, and what a step is measured on."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import tiny_config

import kbert
from kbert.config import BertConfig
from kbert.training import dry_run
from kbert.training.flops import (
    inference_flops_per_token,
    nominal_peak,
    peak_bytes,
    training_flops_per_token,
)


@pytest.mark.parametrize(
    "size, sequence_length, predictions, giga",
    [
        ("tiny", 128, 20, 0.0064),
        ("mini", 128, 20, 0.0278),
        ("small", 128, 20, 0.0935),
        ("base", 128, 20, 0.546),
        ("base", 512, 76, 0.588),
        ("large", 128, 20, 1.880),
        ("tiny", 128, 128, 0.0263),
        ("large", 128, 128, 2.044),
    ],
)
def test_training_flops_are_the_tables(size, sequence_length, predictions, giga):
    flops = training_flops_per_token(BertConfig.from_size(size), sequence_length, predictions)
    np.testing.assert_allclose(flops / 1e9, giga, rtol=0.01)


def test_inference_is_a_third_of_training_without_a_head():
    config = BertConfig.from_size("mini")
    assert 3 * inference_flops_per_token(config, 64) == training_flops_per_token(config, 64, 0)
    # One layer, by hand: four H x H products and two H x F, 2 each; scores and sum over values, 2 H S each.
    one = BertConfig(num_layers=1, hidden_dim=6, num_heads=2, intermediate_dim=5)
    assert inference_flops_per_token(one, 7) == 2 * (4 * 36 + 2 * 30) + 2 * (2 * 6 * 7)


def test_peak_memory_is_the_kernels_high_water_mark():
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        pytest.skip("only Linux tells it another way")
    kilobytes = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    assert peak_bytes() == pytest.approx(1024 * int(kilobytes), rel=0.02)


def test_the_peaks_of_makers():
    assert nominal_peak("NVIDIA H200") == nominal_peak("NVIDIA H100 80GB HBM3", "mixed_bfloat16") == 989e12
    assert nominal_peak("NVIDIA H100 PCIe", "float16") == 756e12
    assert nominal_peak("TPU v5p") == 459e12 and nominal_peak("TPU v5 lite") == 197e12
    assert nominal_peak("NVIDIA H200", "float32") is None and nominal_peak("CPU") is None


@pytest.mark.parametrize("flops", [1.0, 1e18])  # a part of the batch is measured, or the whole
def test_a_question_with_choices_counts_as_its_rows(monkeypatch, flops):
    shapes = {"token_ids": "int32", "segment_ids": "int32", "padding_mask": "bool"}
    batch = {name: tf.ones([4, 3, 9], kind) for name, kind in shapes.items()}, {"logits": tf.zeros([4], "int32")}
    model = kbert.BertMultipleChoice(tiny_config())
    model.compile()
    monkeypatch.setattr(dry_run, "_MEASURED_FLOPS", flops)
    monkeypatch.setattr(dry_run, "peak_bytes", lambda: 1000)
    rows = []

    def one_second_a_row(model, dataset, steps):
        rows.append(3 * len(next(iter(dataset))[0]["token_ids"]))
        return float(rows[-1])

    monkeypatch.setattr(dry_run, "mean_seconds_per_step", one_second_a_row)
    found = dry_run.estimate_training(model, tf.data.Dataset.from_tensors(batch), 10)
    assert rows == [3 if flops == 1.0 else 12]
    assert (found["batch_size"], found["seconds_per_step"], found["seconds"]) == (12, 12.0, 120.0)
    assert found["tokens"] == 10 * 12 * 9
    of_a_row = 4 * 9 * 2 * (4 * 12 + 20)  # bytes: tokens, layers, hidden and intermediate sizes
    assert found["memory_bytes"] == 1000 + (6 * 9 * of_a_row if flops == 1.0 else 0)
