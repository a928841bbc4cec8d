import contextlib
import gzip
import io
import itertools

import pytest
from helpers.run_recipe import as_flags, read_json, run_kbert, run_kbert_alone

from kbert.text.vocabulary import read_vocabulary

SYLLABLES = (("Ka", "mi", "tho"), ("ri", "ün", "da"), ("s", "lo", "ny"), ("", "x", "ter", "ve"))
WORDS = ["".join(word) for word in itertools.product(*SYLLABLES)]
SENTENCES = ["The pieces of " + " ".join(WORDS[i::5]) + ", counted in Zürich." for i in range(5)]


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(SENTENCES) + "\n\n" + "\n".join(SENTENCES[:4]) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(reversed(SENTENCES)) + "\n")
    return tmp_path


def learn(corpus, *arguments, output="out/vocab.txt"):
    run_kbert("vocabulary", *arguments, "--output", corpus / output)
    return read_vocabulary(corpus / output)


def test_learns_and_says_how(corpus, capsys):
    tokens = learn(corpus, corpus / "*.txt", corpus / "*.gz", "--size", 110, "--json")
    out, log = capsys.readouterr()
    printed = out.strip().split("\n")
    assert len(tokens) == 110 and "pieces" in tokens and "zurich" in "".join(tokens)
    assert sorted(path.name for path in (corpus / "out").iterdir()) == ["vocab.json", "vocab.txt"]
    about = read_json(corpus / "out" / "vocab.json")
    assert about["tokens"] == 110 and about["settings"]["size"] == 110 and about["tokenizer"]["lowercase"] is True
    assert '"tokens": 110' in printed[-1]
    assert "different" in log and printed[0].startswith("110 tokens in ")


def test_the_order_of_files_changes_nothing(corpus):
    first = learn(corpus, corpus / "a.txt", corpus / "b.txt.gz", "--size", 105, output="1.txt")
    (corpus / "z.txt").write_bytes((corpus / "a.txt").read_bytes())
    second = learn(corpus, corpus / "b.txt.gz", corpus / "z.txt", "--size", 105, output="2.txt")
    assert first == second


@pytest.mark.slow  # a process of its own
def test_the_hashes_of_python_change_nothing(corpus):
    learn(corpus, corpus / "a.txt", corpus / "b.txt.gz", "--size", 105, output="1.txt")
    run_kbert_alone(
        "vocabulary",
        *(corpus / "a.txt", corpus / "b.txt.gz"),
        *as_flags(size=105, output=corpus / "3.txt"),
        PYTHONHASHSEED="7",
    )
    assert (corpus / "3.txt").read_bytes() == (corpus / "1.txt").read_bytes()


def test_cased(corpus):
    tokens = learn(corpus, corpus / "a.txt", "--size", 100, "--no-lowercase")
    assert "T" in tokens and "ü" in tokens
    assert read_json(corpus / "out" / "vocab.json")["tokenizer"]["lowercase"] is False


def test_says_when_there_is_too_little_text(corpus, capsys):
    tokens = learn(corpus, corpus / "a.txt", "--size", 30522)
    assert 104 < len(tokens) < 1000
    assert f"yields only {len(tokens):,} tokens" in capsys.readouterr().out


def fails(corpus, message, *arguments):
    before, said = sorted(corpus.rglob("*")), io.StringIO()
    with contextlib.redirect_stderr(said), pytest.raises(SystemExit) as error:
        run_kbert("vocabulary", *arguments)
    assert message in f"{error.value} {said.getvalue()}"
    assert sorted(corpus.rglob("*")) == before


def test_nothing_is_overwritten_by_accident(corpus):
    learn(corpus, corpus / "a.txt", "--size", 100)
    old = (corpus / "out" / "vocab.txt").read_bytes()
    arguments = (corpus / "b.txt.gz", "--size", 105, "--output", corpus / "out" / "vocab.txt")
    fails(corpus, "--overwrite", *arguments)
    assert (corpus / "out" / "vocab.txt").read_bytes() == old
    (corpus / "out" / "vocab.txt").unlink()
    fails(corpus, "vocab.json already exists", *arguments)  # it might be another program's
    run_kbert("vocabulary", *arguments, "--overwrite")
    assert len(read_vocabulary(corpus / "out" / "vocab.txt")) == 105


def test_an_output_in_the_corpus_is_not_read(corpus):
    old = learn(corpus, corpus / "*.txt", "--size", 100, output="vocab.txt")
    arguments = (corpus / "*", "--size", 105, "--output", corpus / "vocab.txt", "--overwrite")
    fails(corpus, "an `output` that is no file of the corpus. Received: ", *arguments)
    assert read_vocabulary(corpus / "vocab.txt") == old


def test_bad_input(corpus):
    output = ("--output", corpus / "new" / "vocab.txt")
    (corpus / "blank.txt").write_text("\n \n\x00\n")
    fails(corpus, "contains no words", corpus / "blank.txt", *output)
    fails(corpus, "is a directory", corpus / "a.txt", "--output", corpus)
    fails(corpus, "is the vocabulary; a .json", corpus / "a.txt", "--output", corpus / "vocab.json")
