"""prepare_records.py: a corpus becomes records with a report; a second run and bad input are answered clearly."""

import functools
import gzip
import importlib
import json
import sys

import pytest
from helpers.recorded import recorded_names
from helpers.run_recipe import read_json, run_kbert
from helpers.tiny_corpus import make_documents, make_tokenizer, write_lines

import kbert
from kbert.corpus.documents import read_documents
from kbert.corpus.records import Records
from kbert.corpus.write_records import write_records
from kbert.text.tokenizer import BertTokenizer
from kbert.text.vocabulary import write_vocabulary

statistics_module = importlib.import_module("kbert.pretraining.dataset_statistics")  # its name means the function


@pytest.fixture
def arguments(tmp_path):
    write_lines(tmp_path / "a.txt", make_documents(80))
    write_vocabulary(tmp_path / "vocab.txt", make_tokenizer().vocabulary)
    corpus, vocabulary = str(tmp_path / "*a.txt"), tmp_path / "vocab.txt"
    return [corpus, "--vocabulary", vocabulary, "--output", tmp_path / "records", "--sequence-length", 32]


def test_prepares(arguments, tmp_path, capsys, monkeypatch):
    statistics = functools.partial(statistics_module.dataset_statistics, batches=20)
    monkeypatch.setattr(statistics_module, "dataset_statistics", statistics)
    run_kbert("records", *arguments, "--held-out", 0.1, "--shard-tokens", 500, "--json")
    printed = capsys.readouterr().out
    records = Records(tmp_path / "records")
    records.check_hashes()
    assert len(records.training) > 2 and records.held_out
    metrics = read_json(tmp_path / "records" / "metrics.json")
    assert json.loads(printed.splitlines()[-1]) == metrics
    assert metrics["documents"] == 80 and 0.7 < metrics["data"]["mask_token_rate"] < 0.9
    assert "random next sentence" in printed and "tokens a sequence" in printed
    assert set(read_json(tmp_path / "records" / "inputs.json")["inputs"]) == {"corpus", "vocabulary"}
    settings = read_json(tmp_path / "records" / "settings.json")
    assert settings["held_out"] == 0.1 and settings["shard_tokens"] == 500
    assert settings.keys() == recorded_names(kbert.pretraining.prepare_records)
    with pytest.raises(SystemExit, match="overwrite"):
        run_kbert("records", *arguments, "--held-out", 0.1, "--shard-tokens", 500)
    monkeypatch.setattr(statistics_module, "dataset_statistics", lambda *_: metrics["data"])  # once is enough
    run_kbert("records", "--config", tmp_path / "records" / "settings.json", "--output", tmp_path / "again")
    assert read_json(tmp_path / "again" / "settings.json") == settings
    run_kbert("records", *arguments, "--held-out", 0.0, "--overwrite")
    assert not Records(tmp_path / "records").held_out
    data = [tmp_path / "records", "--output", tmp_path / "run", "--steps", 2]
    with pytest.raises(
        SystemExit, match="none of its 80 documents is held out at held_out=0.0. .* --held-out 0.1 --overw"
    ):
        run_kbert("pretrain", *data, "--sequence-length", 16, "--dry-run")


@pytest.mark.parametrize(
    "change, message",
    [
        (("nothing.txt", "--held-out", 0), "no document with a token"),
        (("cut.gz",), "^error: Cannot read cut.gz: Compressed file ended before .* was reached"),
        (("--vocabulary", "bad.txt"), r"\[MASK\]"),
        (
            ("--held-out", 0.999999),
            "None of 80 documents is for training at held_out=0.999999. Give a smaller fraction",
        ),
        (("--held-out", 1e-9), r"80 documents is held out at held_out=1e-09. Give .* as 0.0\d \(--held-out 0.0\d\)"),
    ],
)
def test_bad_input_leaves_nothing(arguments, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing.txt").write_text("\x00\n\n\x00\n")
    (tmp_path / "bad.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    whole = gzip.compress(b"".join(b"line %d .\n" % number for number in range(5000)))
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SystemExit, match=message) as error:
        corpus, *flags = arguments
        given = [corpus, *flags, *change] if change[0].startswith("--") else [change[0], *flags, *change[1:]]
        run_kbert("records", *given)  # of a flag given twice the last counts
    assert "\n" not in str(error.value) and not (tmp_path / "records").exists()


@pytest.mark.parametrize(
    ("option", "value", "must_be"),
    [
        ("sequence_length", 4, "an integer of at least 5"),
        ("shard_tokens", 2**28 + 1, "an integer in [1, 268435456]"),
    ],
)
def test_numbers_out_of_bounds_are_refused_before_the_work(option, value, must_be, arguments, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        run_kbert("records", *arguments, f"--{option.replace('_', '-')}", value)
    assert f"`{option}` must be {must_be}. Received: {value}" in capsys.readouterr().err
    assert not (tmp_path / "records").exists()


def test_records_in_their_corpus_are_not_text_of_it(arguments, tmp_path, capsys):
    """A pattern that finds their vocab.txt: the same command resumes as before."""
    write_vocabulary(tmp_path / "vocabulary", make_tokenizer().vocabulary)
    arguments = [tmp_path / "**" / "*.txt", "--vocabulary", tmp_path / "vocabulary", *arguments[3:]]
    (tmp_path / "vocab.txt").unlink()
    run_kbert("records", *arguments)
    assert (tmp_path / "records" / "vocab.txt").exists()
    with pytest.raises(SystemExit, match="the finished run of these settings"):
        run_kbert("records", *arguments)


@pytest.mark.parity
@pytest.mark.usefixtures("apache_beam")
def test_a_runner_prepares_the_same_records(arguments, tmp_path):
    """On the command line, Beam's flags after --."""
    flags = ("--held-out", 0.1, "--shard-tokens", 500, "--runner", "DirectRunner")
    run_kbert("records", *arguments, *flags, "--", "--direct_num_workers=1")
    manifest = read_json(tmp_path / "records/manifest.json")
    assert sorted(path.name for path in (tmp_path / "records").iterdir() if path.name.endswith(".json")) == [
        "inputs.json",
        "manifest.json",
        "metrics.json",
        "settings.json",
    ]
    settings = {name: manifest["settings"][name] for name in ("corpus", "format", "language")}
    options = {"held_out": 0.1, "shard_tokens": 500, "settings": settings}
    documents = read_documents(str(tmp_path / "a.txt"))
    write_records(documents, BertTokenizer(tmp_path / "vocab.txt"), tmp_path / "plain", **options)
    for path in (tmp_path / "plain").iterdir():
        assert (tmp_path / "records" / path.name).read_bytes() == path.read_bytes()


def test_a_runner_needs_beam_and_beams_flags_a_runner(arguments, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(SystemExit, match=r"error: A runner needs Apache Beam, .*pip install apache-beam"):
        run_kbert("records", *arguments, "--runner", "DirectRunner")
    assert not (tmp_path / "records").exists()
    for flags in (("--", "--direct_num_workers=2"), ("--shared", "x")):
        with pytest.raises(SystemExit, match="need `runner`"):
            run_kbert("records", *arguments, *flags)
