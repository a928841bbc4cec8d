"""PyTorch's pickles, read without torch: what torch wrote, and everything that a pickle could try."""

import io
import os
import pickle
import sys
import types
import warnings
import zipfile

import numpy as np
import pytest
from helpers.fuzz import peak_memory
from helpers.hf_directory import GOLDEN
from helpers.wrong_values import wrong_inputs

from kbert.weights.files import torch_pickle
from kbert.weights.files.safetensors_file import SafetensorsFile
from kbert.weights.files.torch_pickle import TorchPickleFile


@pytest.mark.parametrize("form", ["bin", "old_bin"])
def test_it_reads_what_torch_wrote(form):
    file, other = (
        TorchPickleFile(GOLDEN / f"hf_{form}/pytorch_model.bin"),
        SafetensorsFile(GOLDEN / "hf_safetensors/model.safetensors"),
    )
    twice = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    assert set(file.tensors) == set(other.tensors) | set(twice)
    for name in file.tensors:
        assert file.tensors[name] == other.tensors[twice.get(name, name)]
        np.testing.assert_array_equal(file.read(name), other.read(twice.get(name, name)), err_msg=name)


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def zip_with(path, entries):
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w") as archive:
        for name, content in entries:
            archive.writestr("archive/" + name, content)


def write_zip(path, pickled, data=np.zeros(16, "float32")):  # noqa: B008
    zip_with(path, [("data.pkl", pickled), ("data/0", data.tobytes())])


@pytest.fixture
def read_pickle(tmp_path):
    """Function of a pickle, which reads a file with it."""

    def read(pickled):
        write_zip(tmp_path / "it.bin", pickled)
        return TorchPickleFile(tmp_path / "it.bin")

    return read


@pytest.mark.parametrize("form", ["zip", "stream", "beside weights"])
def test_a_malicious_pickle_is_refused_and_nothing_executed(tmp_path, form):
    trap, target = tmp_path / "executed", tmp_path / "pytorch_model.bin"
    if form == "zip":
        write_zip(target, pickle.dumps({"bert.pooler.dense.bias": Malicious(trap)}))
    elif form == "stream":
        target.write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(Malicious(trap), 2))
    else:
        with zipfile.ZipFile(GOLDEN / "hf_bin/pytorch_model.bin") as archive:
            (name,) = [name for name in archive.namelist() if name.endswith("data.pkl")]
            good = archive.read(name)
        write_zip(
            target, pickle.dumps(Malicious(trap))[:-1] + b"0" + good[2:]
        )  # called, dropped, then the real weights
    with pytest.raises(ValueError, match="refused: its pickle names (posix|nt).system.*Nothing of it was executed"):
        TorchPickleFile(target)
    assert not trap.exists()
    pickle.loads(pickle.dumps(Malicious(trap)))  # it would have been: the trap works
    assert trap.exists()


def test_any_other_name_in_a_pickle_is_refused(read_pickle):
    names = ("builtins eval", "builtins getattr", "torch load", "kbert load_pretrained", "os path")
    pickles = {name.replace(" ", "."): "c{}\n{}\n.".format(*name.split()).encode() for name in names}
    wrong_inputs(read_pickle, *((pickled, f"names {name}") for name, pickled in pickles.items()))


def tensor_pickle(monkeypatch, offset, size, stride, elements):
    """A pickle as torch's, of one tensor over so many floats, with any numbers for its place among them."""

    class FloatStorage:
        pass

    def _rebuild_tensor_v2(*arguments):
        raise AssertionError("never called")

    class Tensor:
        def __reduce__(self):
            return _rebuild_tensor_v2, ("data", offset, size, stride, False, {})

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return ("storage", FloatStorage, "0", "cpu", elements) if value == "data" else None

    for module, member in (("torch", FloatStorage), ("torch._utils", _rebuild_tensor_v2)):
        member.__module__, member.__qualname__ = module, member.__name__
        stand_in = types.ModuleType(module)
        setattr(stand_in, member.__name__, member)
        monkeypatch.setitem(sys.modules, module, stand_in)
    buffer = io.BytesIO()
    Pickler(buffer, 2).dump({"x": Tensor()})
    return buffer.getvalue()


def test_a_tensor_cannot_reach_beyond_its_data(read_pickle, monkeypatch):
    wrong_inputs(
        lambda tensor: read_pickle(tensor_pickle(monkeypatch, *tensor)),
        ((13, (4,), (1,), 16), "reaches to element 16 of 16\\."),
        ((0, (2, 9), (9, 1), 16), "reaches to element 17"),
        ((-1, (2,), (1,), 16), "makes no sense"),
        ((0, (2,), (-1,), 16), "makes no sense"),
        ((0, (2, 2), (1,), 16), "makes no sense"),
        ((0, (4,), (1,), 99), "should have 396 bytes. Received: 64"),
    )


def test_a_view_is_read_as_torch_would(tmp_path, monkeypatch):
    write_zip(tmp_path / "it.bin", tensor_pickle(monkeypatch, 1, (2, 3), (1, 4), 16), np.arange(16.0, dtype="float32"))
    np.testing.assert_array_equal(TorchPickleFile(tmp_path / "it.bin").read("x"), [[1, 5, 9], [2, 6, 10]])


def test_a_checkpoint_with_more_than_weights_or_a_memo_beyond_all_memory(read_pickle):
    """Of the second pickle, 12 bytes long, Python's own reader would ask for 64 GB."""
    wrong_inputs(
        read_pickle,
        (pickle.dumps({"epoch": 3, "state": {}}), "must hold a state_dict.*epoch"),
        (b"\x80\x02}r\xff\xff\xff\xff.", "it.bin.*an entry 4294967295 of a memo"),
    )


@pytest.mark.parametrize("form", ["bin", "old_bin"])
@pytest.mark.parametrize("left", [-1000, 300])
def test_a_truncated_pickle(form, left, tmp_path):
    content = (GOLDEN / f"hf_{form}/pytorch_model.bin").read_bytes()[:left]
    (tmp_path / "it.bin").write_bytes(content)
    with pytest.raises(ValueError, match="truncated|corrupted|cannot be read"):
        TorchPickleFile(tmp_path / "it.bin")


def test_a_flipped_bit_is_noticed(tmp_path):
    """A zip file keeps a checksum of every entry."""
    content = bytearray((GOLDEN / "hf_bin/pytorch_model.bin").read_bytes())
    values = SafetensorsFile(GOLDEN / "hf_safetensors/model.safetensors").read("bert.pooler.dense.weight")
    content[content.index(values.tobytes()) + 5] ^= 1
    (tmp_path / "it.bin").write_bytes(content)
    file = TorchPickleFile(tmp_path / "it.bin")
    with pytest.raises(ValueError, match="it.bin.*'bert.pooler.dense.weight' cannot be read.*corrupted"):
        file.read("bert.pooler.dense.weight")


@pytest.mark.parametrize("form", ["bin", "old_bin"])
def test_any_damage_is_an_error_that_names_the_file(form, tmp_path):
    """Bytes changed at random, most of all where the pickle is: a ValueError with the path, or other numbers."""
    original, rng, noticed = (GOLDEN / f"hf_{form}/pytorch_model.bin").read_bytes(), np.random.default_rng(0), 0
    for _ in range(60):
        content = bytearray(original)
        for place in rng.integers(0, min(6000, len(content)), 3):
            content[place] = rng.integers(256)
        (tmp_path / "it.bin").write_bytes(content)
        try:
            file = TorchPickleFile(tmp_path / "it.bin")
            for name in file.tensors:
                file.read(name)
        except ValueError as error:
            noticed += 1
            assert "it.bin" in str(error), error
    assert noticed > 20


# What is packed into the file, and how large it says it is.


@pytest.mark.parametrize(
    "entries,compression,message",
    [
        ([("byteorder", b"l" * 10_000_000)], zipfile.ZIP_STORED, "byteorder must have at most 6 bytes. Received: 1"),
        ([("byteorder", b"l" * 10_000_000)], zipfile.ZIP_DEFLATED, "byteorder' is compressed"),
        ([("byteorder", b"middle")], zipfile.ZIP_STORED, "byteorder must be little or big. Received: b'middle'"),
        ([("version", b"3" * 10_000_000)], zipfile.ZIP_DEFLATED, "version' is compressed"),
        ([("data.pkl", b"\x80\x02}.")], zipfile.ZIP_STORED, "data.pkl' occurs twice"),
        ([("data/0", b"")], zipfile.ZIP_STORED, "data/0' occurs twice"),
        ([("data/1", bytes(10_000_000))], zipfile.ZIP_DEFLATED, "data/1' is compressed"),
    ],
)
def test_every_entry_is_bounded(tmp_path, monkeypatch, entries, compression, message):
    sound = [("data.pkl", tensor_pickle(monkeypatch, 0, (16,), (1,), 16)), ("data/0", bytes(64))]
    zip_with(tmp_path / "it.bin", sound)
    TorchPickleFile(tmp_path / "it.bin")
    if compression == zipfile.ZIP_STORED:
        zip_with(tmp_path / "it.bin", sound + entries)
    else:  # the entry alone is compressed
        zip_with(tmp_path / "it.bin", sound)
        with zipfile.ZipFile(tmp_path / "it.bin", "a", compression) as archive:
            for name, content in entries:
                archive.writestr("archive/" + name, content)
    before = peak_memory(begin=True)
    with pytest.raises(ValueError, match=f"it.bin.*{message}"):
        TorchPickleFile(tmp_path / "it.bin")
    assert peak_memory() - before < 30


def test_entries_that_do_not_fit(tmp_path, monkeypatch):
    def read(entries):
        zip_with(tmp_path / "it.bin", entries)
        TorchPickleFile(tmp_path / "it.bin")

    pickled = tensor_pickle(monkeypatch, 0, (4,), (1,), 16)
    wrong_inputs(
        read,
        ([("readme.txt", "x")], "not a PyTorch checkpoint: it has no data.pkl"),
        ([("data.pkl", b"\x80\x02" + b"]" * 5_000_000 + b".")], "data.pkl must have at most 1000000 bytes"),
        ([("data.pkl", pickled), ("data/0", bytes(6_400_000))], "should have 64 bytes. Received: 6400000"),
    )


@pytest.mark.parametrize("size,stride", [((1000, 1000), (0, 0)), ((9,), (1,))])
def test_more_elements_than_data(tmp_path, monkeypatch, size, stride):
    """As torch's `expand` gives them: a number that stands for a million."""
    write_zip(tmp_path / "it.bin", tensor_pickle(monkeypatch, 0, size, stride, 4), np.zeros(4, "float32"))
    with pytest.raises(
        ValueError, match=r"has more elements than its data\. Received: .*size=4\)|reaches to element 8 of 4\."
    ):
        TorchPickleFile(tmp_path / "it.bin")


# What a pickle could do.

ORDERED = b"ccollections\nOrderedDict\n"
REBUILD = b"ctorch._utils\n_rebuild_parameter\n"


def test_only_plain_data_come_out(read_pickle):
    wrong_inputs(
        lambda pickled: read_pickle(b"\x80\x04" + pickled),
        (REBUILD + b"}\x8c\x08__code__\x8c\x01xsb.", "changes a _Function as if it were a dict"),
        (REBUILD + b"}\x8c\x01aX\x01\x00\x00\x00bsb.", "changes a _Function as if it were a dict"),
        (ORDERED + b")R" + REBUILD + b"\x86b.", ""),
        (REBUILD + b"\x8c\x01aNs.", "changes a _Function"),
        (REBUILD + b"(\x8c\x01aNu.", "changes a _Function"),
        (REBUILD + b"Na.", "changes a _Function as if it were a list"),
        (REBUILD + b"(Ne.", "changes a _Function"),
        (b"]\x8c\x01aNs.", "changes a list as if it were a dict"),
        (REBUILD + b")\x81.", "opcode NEWOBJ"),
        (REBUILD + b")}\x92.", "opcode NEWOBJ_EX"),
        (b"(i__main__\nx\n.", "opcode INST"),
        (b"(" + REBUILD + b"o.", "opcode OBJ"),
        (b"\x82\x01.", "opcode EXT1"),
        (b"\x84\xff\xff\xff\x7f.", "opcode EXT4"),
        (b"\x8b\xff\xff\xff\x7f" + b"\x01" * 9 + b".", "not enough data in stream to read long4"),
        (b"\x8b\x04\x00\x00\x00\x01\x01\x01\x01.", "opcode LONG4"),
        (b"\x8e" + b"\xff" * 7 + b"\x7f.", "bytes8"),
        (b"\x96" + b"\xff" * 7 + b"\x7f.", "bytearray8"),
        (b"\x8d" + b"\xff" * 7 + b"\x7f.", "8"),
        (b"Pid\n.", "opcode PERSID"),
        (b"NQ.", "persistent id that torch does not write"),
        (b"N)R.", "calls 'NoneType'"),
        (b"ctorch\nFloatStorage\n)R.", "calls 'str'"),
        (ORDERED + b"N\x85R.", "TypeError"),
        (b"0.", "more values taken"),
        (b"(NN.", ""),
        (b"}N.", "must hold a state_dict"),
        (b"}NNs.", "a key of a dict that is a NoneType"),
        (b"})Ns.", "a key of a dict that is a tuple"),
        (b"h\x00.", "KeyError"),
        (b"\x95" + b"\xff" * 8 + b"N.", "must hold a state_dict"),
        owner="it.bin.*",
    )
    assert set(vars(torch_pickle._rebuild_parameter)) == set()


def test_values_that_grow_are_never_written_out(read_pickle):
    """A tuple of two tuples of two tuples …: 2 ** 200 values in 800 bytes; as key, argument, persistent id."""
    laughs = b"N" + b"q\x00h\x00\x86" * 200
    pickles = (b"}" + laughs + b"Ns.", laughs + b"Q.", REBUILD + laughs + b"R.", laughs + b".")
    wrong_inputs(read_pickle, *((b"\x80\x02" + pickled, "it.bin") for pickled in pickles))


def test_the_state_of_a_dict_is_dropped(tmp_path):
    """As torch writes it: a state_dict with its `_metadata`."""
    write_zip(tmp_path / "it.bin", b"\x80\x02" + ORDERED + b")R}\x8c\x09_metadata}sb.")
    assert TorchPickleFile(tmp_path / "it.bin").tensors == {}
