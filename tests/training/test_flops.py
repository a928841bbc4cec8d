"""The FLOP formula against the table of performance.md, and the measured peaks."""

import pathlib

import numpy as np
import pytest

from kbert.config import BertConfig
from kbert.training.flops import (
    inference_flops_per_token,
    matmul_peak,
    nominal_peak,
    peak_memory_bytes,
    training_flops_per_token,
)
from kbert.training.matmul_speed import matmul_flops, matmul_speed


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


def test_matmul_peak_is_a_speed():
    peak = matmul_peak("mixed_bfloat16", size=128, seconds=0.05)
    assert 1e8 < peak < 1e16


def test_the_speed_of_a_product_of_transposed_factors():
    for left, right, transpose in (((3, 4), (4, 5), (False, False)), ((2, 4, 3), (2, 5, 4), (True, True))):
        assert matmul_flops(left, right, transpose) == 2 * 3 * 4 * 5 * (2 if len(left) == 3 else 1)
        assert matmul_speed(left, right, transpose=transpose, seconds=0.01) > 0


def test_peak_memory_is_the_kernels_high_water_mark():
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        pytest.skip("only Linux tells it another way")
    kilobytes = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    assert peak_memory_bytes() == pytest.approx(1024 * int(kilobytes), rel=0.02)


def test_the_peaks_of_makers():
    assert nominal_peak("NVIDIA H200") == nominal_peak("NVIDIA H100 80GB HBM3", "mixed_bfloat16") == 989e12
    assert nominal_peak("NVIDIA H100 PCIe", "float16") == 756e12
    assert nominal_peak("TPU v5p") == 459e12 and nominal_peak("TPU v5 lite") == 197e12
    assert nominal_peak("NVIDIA H200", "float32") is None and nominal_peak("CPU") is None
