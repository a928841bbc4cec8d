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
        ((13, (4,), (1,), 16), r"reaches beyond its data.*offset=13, shape=\(4,\)"),
        ((0, (2, 9), (9, 1), 16), r"reaches beyond its data.*shape=\(2, 9\)"),
        ((-1, (2,), (1,), 16), "makes no sense"),
        ((0, (2,), (-1,), 16), "makes no sense"),
        ((0, (2**63,), (0,), 16), "makes no sense"),
        ((0, (2, 2), (1,), 16), "without data or a shape"),
        ((0, (4,), (1,), 99), "should have 396 bytes. Received: 64"),
    )


def test_a_view_is_read_as_torch_would(tmp_path, monkeypatch):
    write_zip(tmp_path / "it.bin", tensor_pickle(monkeypatch, 1, (2, 3), (1, 4), 16), np.arange(16.0, dtype="float32"))
    np.testing.assert_array_equal(TorchPickleFile(tmp_path / "it.bin").read("x"), [[1, 5, 9], [2, 6, 10]])


def test_bfloat16_is_widened_exactly(tmp_path, monkeypatch):
    pickled = tensor_pickle(monkeypatch, 0, (2, 2), (2, 1), 4).replace(b"\nFloatStorage", b"\nBFloat16Storage")
    values = np.array([[1, -2.5], [3.140625, 0]], "float32")
    write_zip(tmp_path / "it.bin", pickled, (values.view("<u4") >> 16).astype("<u2"))
    file = TorchPickleFile(tmp_path / "it.bin")
    assert file.tensors["x"].dtype == "bfloat16" and file.read("x").dtype == "float32"
    np.testing.assert_array_equal(file.read("x"), values)


def test_a_tied_table_may_occur_twice_but_the_same_data_not_any_number_of_times(read_pickle):
    words = [b"X" + len(word).to_bytes(4, "little") + word for word in (b"storage", b"FloatStorage", b"0", b"cpu")]
    data = b"(" + b"".join(words) + b"K\x10tQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + data + b"K\x00K\x10\x85K\x01\x85tR"
    entries = [b"X\x01\x00\x00\x00" + name + tensor + b"s" for name in (b"a", b"b", b"c")]
    assert set(read_pickle(b"\x80\x02}" + b"".join(entries[:2]) + b".").tensors) == {"a", "b"}
    with pytest.raises(ValueError, match="192 bytes of tensors in 64 bytes of data"):
        read_pickle(b"\x80\x02}" + b"".join(entries) + b".")


def test_a_checkpoint_with_more_than_weights(read_pickle):
    with pytest.raises(ValueError, match="must hold a state_dict.*epoch"):
        read_pickle(pickle.dumps({"epoch": 3, "state": {1: 2}}))


def test_what_a_pickle_claims_is_never_allocated(read_pickle):
    """A memo for which Python's C reader asks for 64 GB, in 12 bytes, and values of 2 to 8 GB."""
    claims = {
        "memo": b"}r\xff\xff\xff\xff.",
        "string": b"X\xff\xff\xff\x7f.",
        "old string": b"T\xff\xff\xff\x7f.",
        "frame": b"\x95\x00\x00\x00\x00\x02\x00\x00\x00.",
        "number": b"\x8b\xff\xff\xff\x7f.",
        "bytes": b"\x8e\x00\x00\x00\x00\x02\x00\x00\x00.",
        "bytearray": b"\x96\x00\x00\x00\x00\x02\x00\x00\x00.",
    }
    before = peak_memory(begin=True)
    for name, claim in claims.items():
        if name == "memo":  # it is a dict here
            assert read_pickle(b"\x80\x04" + claim).tensors == {}
        else:
            with pytest.raises(ValueError, match="it.bin"):
                read_pickle(b"\x80\x04" + claim)
    assert peak_memory() - before < 100


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
        ([("byteorder", b"l" * 10_000_000)], zipfile.ZIP_STORED, "byteorder must have at most 6 bytes.*Received: 1"),
        ([("byteorder", b"l" * 10_000_000)], zipfile.ZIP_DEFLATED, "byteorder must have .*uncompressed"),
        ([("byteorder", b"middle")], zipfile.ZIP_STORED, "byteorder must be little. Received: b'middle'"),
        ([("byteorder", b"big")], zipfile.ZIP_STORED, "byteorder must be little. Received: b'big'"),
        ([("data.pkl", b"\x80\x02}.")], zipfile.ZIP_STORED, "must have one data.pkl. Received: 2"),
        ([("data/0", b"")], zipfile.ZIP_STORED, "data/0 should have 64 bytes. Received: 0"),
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


def test_compressed_data_are_refused(tmp_path, monkeypatch):
    """Of ten megabytes of zeros in ten kilobytes, and of an entry that says so of itself."""
    pickled = tensor_pickle(monkeypatch, 0, (1000,), (1,), 2_500_000)
    for elements in (2_500_000, 16):
        with zipfile.ZipFile(tmp_path / "it.bin", "w") as archive:
            archive.writestr("archive/data.pkl", pickled)
            archive.writestr("archive/data/0", bytes(4 * elements), zipfile.ZIP_DEFLATED)
        with pytest.raises(ValueError, match="it.bin.*(in a file of|should have 10000000 bytes)"):
            TorchPickleFile(tmp_path / "it.bin")
    padded = [("data.pkl", tensor_pickle(monkeypatch, 0, (16,), (1,), 16)), ("padding", bytes(100))]
    zip_with(tmp_path / "it.bin", padded)
    with zipfile.ZipFile(tmp_path / "it.bin", "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("archive/data/0", bytes(64))
    with pytest.raises(ValueError, match="'x' cannot .*data/0 must have at most 64 bytes, uncompressed"):
        TorchPickleFile(tmp_path / "it.bin").read("x")


def test_entries_that_do_not_fit(tmp_path, monkeypatch):
    def read(entries):
        zip_with(tmp_path / "it.bin", entries)
        TorchPickleFile(tmp_path / "it.bin")

    pickled = tensor_pickle(monkeypatch, 0, (4,), (1,), 16)
    wrong_inputs(
        read,
        ([("readme.txt", "x")], "must have one data.pkl. Received: 0"),
        ([("data.pkl", b"\x80\x02" + b"]" * 5_000_000 + b".")], "data.pkl must have at most 1000000 bytes"),
        ([("data.pkl", pickled), ("data/0", bytes(6_400_000))], "should have 64 bytes. Received: 6400000"),
    )


@pytest.mark.parametrize("size,stride", [((1000, 1000), (0, 0)), ((9,), (1,))])
def test_more_elements_than_data(tmp_path, monkeypatch, size, stride):
    """As torch's `expand` gives them: a number that stands for a million."""
    write_zip(tmp_path / "it.bin", tensor_pickle(monkeypatch, 0, size, stride, 4), np.zeros(4, "float32"))
    with pytest.raises(ValueError, match="reaches beyond its data"):
        TorchPickleFile(tmp_path / "it.bin")


# What a pickle could do.

ORDERED = b"ccollections\nOrderedDict\n"
REBUILD = b"ctorch._utils\n_rebuild_parameter\n"


def test_only_plain_data_come_out(read_pickle):
    wrong_inputs(
        lambda pickled: read_pickle(b"\x80\x04" + pickled),
        (REBUILD + b"}\x8c\x08__code__\x8c\x01xsb.", "must hold a state_dict.*Received: function"),
        (REBUILD + b"}\x8c\x01aX\x01\x00\x00\x00bsb.", "must hold a state_dict.*Received: function"),
        (REBUILD + b"N}\x8c\x0c__defaults__)s\x86b.", "must hold a state_dict.*Received: function"),
        (ORDERED + b")R" + REBUILD + b"\x86b.", ""),
        (REBUILD + b"\x8c\x01aNs.", "'function' object does not support item assignment"),
        (REBUILD + b"(\x8c\x01aNu.", "'function' object does not support item assignment"),
        (REBUILD + b"Na.", "'function' object has no attribute 'append'"),
        (REBUILD + b"(Ne.", "'function' object has no attribute 'append'"),
        (b"]\x8c\x01aNs.", "list indices must be integers"),
        (REBUILD + b")\x81.", r"refused.*opcode b'\\x81'"),  # NEWOBJ
        (REBUILD + b")}\x92.", r"refused.*opcode b'\\x92'"),  # NEWOBJ_EX
        (b"(i__main__\nx\n.", "refused.*opcode b'i'"),  # INST
        (b"(" + REBUILD + b"o.", "refused.*opcode b'o'"),  # OBJ
        (b"\x82\x01.", r"refused.*opcode b'\\x82'"),  # EXT1
        (b"\x84\xff\xff\xff\x7f.", r"refused.*opcode b'\\x84'"),  # EXT4
        (b"\x8b\x04\x00\x00\x00\x01\x01\x01\x01.", r"refused.*opcode b'\\x8b'"),  # LONG4
        (b"\x8d" + b"\xff" * 7 + b"\x7f.", r"refused.*opcode b'\\x8d'"),  # BINUNICODE8
        (b"Pid\n.", "refused.*opcode b'P'"),  # PERSID
        (b"NQ.", "persistent id that torch does not write"),
        (b"N)R.", "'NoneType' object is not callable"),
        (b"ctorch\nFloatStorage\n)R.", "'str' object is not callable"),
        (ORDERED + b"N\x85R.", "TypeError"),
        (b"0.", "pop from empty list"),
        (b"(NN.", ""),
        (b"}N.", "must hold a state_dict"),
        (b"}NNs.", "a key of a dict that is a NoneType"),
        (b"})Ns.", "a key of a dict that is a tuple"),
        (ORDERED + b"])N\x86a\x85R.", "a key of a dict that is a tuple"),
        (b"h\x00.", "Memo value not found"),
        (b"\x95" + b"\xff" * 8 + b"N.", "frame size"),
        owner="it.bin.*",
    )
    assert set(vars(torch_pickle._rebuild_parameter)) == set() and torch_pickle._ordered_dict.__defaults__ == ((),)


def test_values_that_grow_are_never_hashed_compared_or_written_out(read_pickle, tmp_path):
    """A tuple of two tuples of two tuples …: 2 ** 200 values in 800 bytes, wherever a pickle may have a value."""
    laughs = b"N" + b"q\x00h\x00\x86" * 200
    words = [b"X" + len(word).to_bytes(4, "little") + word for word in (b"storage", b"FloatStorage", b"0", b"cpu")]
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n("
    parts = [*words, b"K\x10"]
    data = b"(" + b"".join(parts) + b"tQ"
    identities = [b"(" + b"".join([*parts[:i], laughs, *parts[i + 1 :]]) for i in range(5)]
    pickles = [
        b"}" + laughs + b"Ns.",
        laughs + b"Q.",
        REBUILD + laughs + b"R.",
        ORDERED + b"]" + laughs + b"N\x86a\x85R.",
        laughs + b".",
        *(identity + b"tQ." for identity in identities),
        *(tensor + start + b"tR." for start in (laughs, data + laughs + b"))", data + b"K\x00" + laughs + b"\x85)")),
        tensor + data + b"K\x00" + laughs + b"\x85" + laughs + b"\x85tR.",
        tensor + data + laughs + b"K\x04\x85K\x01\x85tR.",
    ]
    wrong_inputs(read_pickle, *((b"\x80\x02" + pickled, "it.bin") for pickled in pickles))
    start = [pickle.dumps(value, 2) for value in (torch_pickle._LEGACY_MAGIC, 1001, {"little_endian": True}, {})]
    (tmp_path / "it.bin").write_bytes(b"".join([*start, b"\x80\x02]", laughs, b"a."]))
    with pytest.raises(ValueError, match="it.bin.*other sizes"):
        TorchPickleFile(tmp_path / "it.bin")


def test_the_state_of_a_dict_is_dropped(tmp_path):
    """As torch writes it: a state_dict with its `_metadata`."""
    write_zip(tmp_path / "it.bin", b"\x80\x02" + ORDERED + b")R}\x8c\x09_metadata}sb.")
    assert TorchPickleFile(tmp_path / "it.bin").tensors == {}
