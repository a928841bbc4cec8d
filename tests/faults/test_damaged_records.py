"""Every kind of damage to a records directory: refused, by a ValueError that names the file."""

import json
import re

import numpy as np
import pytest
from helpers.tiny_corpus import make_documents, make_tokenizer

from kbert.corpus.records import Records
from kbert.corpus.write_records import write_records
from kbert.errors import reading_errors
from kbert.pretraining.dataset import pretraining_dataset

SHARD = "train-00000"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sound") / "records"
    write_records(make_documents(60, seed=2), make_tokenizer(), directory, shard_tokens=700, held_out=0.2)
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def records(sound, tmp_path):
    for name, content in sound.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def read_everything(directory):
    opened = Records(directory)
    opened.check_tokenizer(make_tokenizer())
    for held_out, shards in ((False, opened.training), (True, opened.held_out)):
        for shard in range(len(shards)):
            opened.pool(shard, held_out)


def edit_numbers(directory, name, kind, change):
    path = directory / name
    numbers = np.fromfile(path, kind)
    change(numbers)
    numbers.tofile(path)


def set_item(position, value):
    return lambda numbers: numbers.__setitem__(position, value)


def move_one(numbers):
    """One sentence a token shorter, the next one longer: every sum stays."""
    at = int(np.flatnonzero(numbers[2:-2] > 1)[0]) + 2
    numbers[at] -= 1
    numbers[at + 1] += 1


def swap(directory, first, second):
    contents = (directory / first).read_bytes(), (directory / second).read_bytes()
    (directory / first).write_bytes(contents[1])
    (directory / second).write_bytes(contents[0])


def to_directory(path):
    path.unlink()
    path.mkdir()


TOKENS, INDEX, HELD_OUT = f"{SHARD}.tokens", f"{SHARD}.index", "held-out-00000"
VOCABULARY, MANIFEST_FILE = "vocab.txt", "manifest.json"
NUMBERS = {  # fault → the file, the type of its numbers, how they are changed
    "a bit of a token": (TOKENS, "<u2", set_item(5, 7)),
    "a token beyond the vocabulary": (TOKENS, "<u2", set_item(5, 60_000)),
    "tokens zeroed": (TOKENS, "<u2", set_item(slice(None), 0)),
    "held-out tokens": (f"{HELD_OUT}.tokens", "<u2", set_item(3, 9)),
    "one number of an index": (INDEX, "<i4", set_item(4, 3)),
    "two numbers of an index": (INDEX, "<i4", move_one),
    "an index zeroed": (INDEX, "<i4", set_item(slice(None), 0)),
    "an index of no sentences": (INDEX, "<i4", set_item(0, 0)),
    "an index of many": (INDEX, "<i4", set_item(0, 2**31 - 1)),
    "negative lengths": (INDEX, "<i4", set_item(4, -1)),
}
CONTENTS = {  # fault → the file, what it holds instead
    "tokens cut short": (TOKENS, b"\x00\x00"),
    "tokens empty": (TOKENS, b""),
    "an index cut short": (INDEX, b"\x00" * 7),
    "a held-out index": (f"{HELD_OUT}.index", b""),
    "another vocabulary": (VOCABULARY, b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"),
    "a vocabulary that is no text": (VOCABULARY, b"\xff\xfe\x00"),
    "an empty manifest": (MANIFEST_FILE, b""),
    "a manifest cut short": (MANIFEST_FILE, b'{"format": "kbert'),
    "a nested manifest": (MANIFEST_FILE, b"[" * 100_000),
    "a manifest that is a list": (MANIFEST_FILE, b"[]"),
    "a manifest that is no text": (MANIFEST_FILE, b"\xff\xfe{}"),
}
FILES = {  # fault → the file that the error names, what is done to the directory
    **{fault: (edit[0], lambda d, edit=edit: edit_numbers(d, *edit)) for fault, edit in NUMBERS.items()},
    **{
        fault: (name, lambda d, n=name, c=content: (d / n).write_bytes(c))
        for fault, (name, content) in CONTENTS.items()
    },
    **{f"no {n}": (n, lambda d, n=n: (d / n).unlink()) for n in (TOKENS, INDEX, VOCABULARY, MANIFEST_FILE)},
    "tokens are a directory": (TOKENS, lambda d: to_directory(d / TOKENS)),
    "tokens of another shard": (TOKENS, lambda d: swap(d, TOKENS, "train-00001.tokens")),
    "a token of the vocabulary": (
        VOCABULARY,
        lambda d: (d / VOCABULARY).write_bytes((d / VOCABULARY).read_bytes().replace(b"\nq\n", b"\nqq\n")),
    ),
}


def test_sound_records(records):
    read_everything(records)
    edit_manifest(records, lambda manifest: None)
    read_everything(records)


@pytest.mark.parametrize("fault", FILES)
def test_a_damaged_file(records, fault):
    name, damage = FILES[fault]
    damage(records)
    with pytest.raises(ValueError, match=re.escape(name)):
        read_everything(records)


MANIFEST = {  # what is done to the manifest, and leaves its hash as it was
    "a shard less": lambda m: m["shards"].pop(),
    "shards in another order": lambda m: m["shards"].insert(0, m["shards"].pop(1)),
    "another name": lambda m: m["shards"][0].update(name="../train-00000"),
    "another hash": lambda m: m["shards"][0].update(index_sha256="0" * 64),
    "other counts": lambda m: m["counts"].update(tokens=1),
    "another setting": lambda m: m["settings"].update(seed=7),
    "lowercase": lambda m: m["tokenizer"].update(lowercase=False),
    "a field more": lambda m: m.update(more=1),
    "no hash": lambda m: m.pop("sha256"),
}


@pytest.mark.parametrize("fault", MANIFEST)
def test_an_edited_manifest(records, fault):
    edit_manifest(records, MANIFEST[fault])
    with pytest.raises(ValueError, match="manifest.json is damaged or was edited: its SHA-256"):
        Records(records)


def test_another_format(records):
    edit_manifest(records, lambda manifest: manifest.update(format="kbert records 1"))
    with pytest.raises(
        ValueError, match="manifest.json: expected the format 'kbert records 2'. Received: 'kbert records 1'"
    ):
        Records(records)


def edit_manifest(directory, change):
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def test_damage_while_it_is_read(records):
    """A shard that is damaged after the records were opened ends the iteration; a held-out one, the evaluation."""
    options = {"batch_size": 4, "sequence_length": 16}
    dataset = pretraining_dataset(records, make_tokenizer(), **options)
    swap(records, f"{SHARD}.tokens", "train-00001.tokens")
    message = r"^\S*train-0000\d.tokens is damaged: its SHA-256[^\n]*again\.$"
    with pytest.raises(ValueError, match=message), reading_errors():
        for _ in dataset.take(1000):
            pass
    swap(records, f"{SHARD}.tokens", "train-00001.tokens")
    edit_numbers(records, "held-out-00000.tokens", "<u2", set_item(0, 8))
    with pytest.raises(ValueError, match="held-out-00000.tokens is damaged"):
        pretraining_dataset(records, make_tokenizer(), evaluation=True, **options)
