"""The safetensors format: what is written is read, and nothing false is believed."""

import json

import numpy as np
import pytest
from helpers.hf_directory import GOLDEN
from helpers.wrong_values import wrong_inputs
from safetensors import safe_open
from safetensors.numpy import load_file

from kbert.weights.files.safetensors_file import SafetensorsFile, write_safetensors


def write_raw(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "a": rng.normal(size=(3, 5)),
        "b.c": rng.normal(size=7),
        "scalar": np.float32(2.5),
        "none": np.zeros((0, 4)),
    }
    arrays = {name: np.asarray(value, "float32") for name, value in arrays.items()}
    arrays["transposed"] = arrays["a"].T
    reads = []
    tensors = {n: (v.shape, lambda n=n, v=v: reads.append(n) or v[...]) for n, v in arrays.items()}
    write_safetensors(tmp_path / "it.safetensors", tensors, format="pt")
    assert reads == list(arrays)  # one at a time, in order
    file = SafetensorsFile(tmp_path / "it.safetensors")
    assert {name: info.shape for name, info in file.tensors.items()} == {n: v.shape for n, v in arrays.items()}
    theirs = load_file(tmp_path / "it.safetensors")  # the format's own library agrees
    for name, value in arrays.items():
        np.testing.assert_array_equal(file.read(name), value)
        np.testing.assert_array_equal(theirs[name], value)
    with safe_open(tmp_path / "it.safetensors", framework="np") as opened:
        assert opened.metadata() == {"format": "pt"}


def test_what_transformers_wrote():
    theirs = load_file(GOLDEN / "hf_safetensors/model.safetensors")
    ours = SafetensorsFile(GOLDEN / "hf_safetensors/model.safetensors")
    assert set(theirs) == set(ours.tensors)
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours.read(name), value)


def test_a_wrong_announcement_and_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        SafetensorsFile(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"announced with shape \(3,\). Received: \(2,\)"):
        write_safetensors(tmp_path / "it", {"x": ((3,), lambda: np.zeros(2))})


@pytest.mark.parametrize("name,dtype", [("F64", "<f8"), ("F16", "<f2"), ("I64", "<i8"), ("U8", "u1"), ("BOOL", "?")])
def test_other_types(tmp_path, name, dtype):
    array = np.array([[1, 0], [0, 1], [1, 1]]).astype(dtype)
    header = {"x": {"dtype": name, "shape": [3, 2], "data_offsets": [0, array.nbytes]}}
    write_raw(tmp_path / "it", header, array.tobytes())
    found = SafetensorsFile(tmp_path / "it").read("x")
    np.testing.assert_array_equal(found, array)


def test_bfloat16_is_widened_exactly(tmp_path):
    exact = np.array([1.0, -2.5, 3.140625, 1e-30, np.inf], "float32")  # of which bfloat16 holds the first three
    bits = (exact.view("<u4") >> 16).astype("<u2")
    write_raw(tmp_path / "it", {"x": {"dtype": "BF16", "shape": [5], "data_offsets": [0, 10]}}, bits.tobytes())
    found = SafetensorsFile(tmp_path / "it").read("x")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[:3], exact[:3])
    np.testing.assert_allclose(found[3], exact[3], rtol=2**-7)
    assert np.isinf(found[4])


def test_a_false_header(tmp_path):
    def read(header_and_bytes):
        entry, count = header_and_bytes
        write_raw(tmp_path / "it", {"x": entry}, b"\0" * count)
        SafetensorsFile(tmp_path / "it")

    wrong_inputs(
        read,
        (({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, 8), "cannot be read: .*invalid shape"),
        (({"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}, 12), "cannot .*not fully covered.*Download"),
        (({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, 8), "cannot .*not fully covered"),
        (({"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}, 12), "cannot .*invalid value"),
        (({"dtype": "F32", "shape": [1.5], "data_offsets": [0, 6]}, 12), "cannot .*invalid type"),
        (({"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 12]}, 12), "cannot .*overflow"),
        (({"dtype": "F32", "shape": [1]}, 12), "cannot .*missing field `data_offsets`"),
        owner="it' ",
    )


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    path = tmp_path / "it"
    write_safetensors(path, {"x": ((9,), lambda: np.zeros(9))})
    file = SafetensorsFile(path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="it': the tensor 'x' cannot be read.*not fully covered"):
        file.read("x")
