"""What changes between kill and resume is found: a run never goes on with other inputs than it was started with."""

import importlib

import pytest
from helpers.run_recipe import as_flags, run_kbert
from helpers.tiny_corpus import VOCABULARY, make_documents, make_tokenizer, write_lines
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert
from kbert.corpus.write_records import write_records


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Inputs of both recipes: a corpus, its records, a vocabulary, models, a table."""
    path = tmp_path_factory.mktemp("made")
    write_lines(path / "corpus.txt", make_documents(60))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    write_tiny_directory(path / "init")
    write_table(path / "train.csv", sentences(40))
    _write_records(path / "records", seed=0)
    return path


def _write_records(path, seed):
    documents, tokenizer = make_documents(60), make_tokenizer()
    write_records(documents, tokenizer, path, shard_tokens=300, held_out=0.2, seed=seed, overwrite=True)


def _pretrain(path, *source):
    return (
        "pretrain",
        *source,
        *(as_flags(held_out=0.2) if str(source[0]).endswith(".txt") else ()),
        *as_flags(steps=4, batch_size=4, sequence_length=16, evaluation_batches=1, output=path / "run"),
    )


def _finetune(path):
    return (
        "finetune",
        "classification",
        *as_flags(train=path / "train.csv", dev=0.1, source=path / "init", steps=4),
        *as_flags(sequence_length=9, output=path / "run"),
    )


def _permute(path):
    tokens = path.read_text().split("\n")
    path.write_text("\n".join([*tokens[:7], *reversed(tokens[7:-1]), ""]))


def _other_weights(path):
    model = kbert.load_pretrained(path)
    model.encoder.set_weights([weight + 0.5 for weight in model.encoder.get_weights()])
    kbert.save_pretrained(model, path, overwrite=True)


def _invert(path):
    swapped = {"good": "bad", "bad": "good"}
    write_table(path, [(text, swapped[label]) for text, label in sentences(40)])


CHANGES = {
    "vocabulary permuted": (
        lambda path: _pretrain(path, path / "corpus.txt", "--vocabulary", path / "vocab.txt"),
        lambda path: _permute(path / "vocab.txt"),
        r"vocab.txt \(--vocabulary\) has changed",
    ),
    "corpus replaced": (
        lambda path: _pretrain(path, path / "corpus.txt", "--vocabulary", path / "vocab.txt"),
        lambda path: write_lines(path / "corpus.txt", make_documents(60, seed=1)),
        r"corpus.txt \(--corpus-or-records\) has changed",
    ),
    "records written anew": (
        lambda path: _pretrain(path, path / "records"),
        lambda path: _write_records(path / "records", seed=1),
        r"records/manifest.json \(--corpus-or-records\) has changed",
    ),
    "labels inverted": (_finetune, lambda path: _invert(path / "train.csv"), r"train.csv \(--train\) has changed"),
    "init replaced": (
        _finetune,
        lambda path: _other_weights(path / "init"),
        r"init/model.safetensors \(--(init|source)\) has changed",
    ),
    "init replaced, pre-training": (
        lambda path: _pretrain(path, path / "corpus.txt", "--init", path / "init"),
        lambda path: _other_weights(path / "init"),
        r"init/model.safetensors \(--(init|source)\) has changed",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_changes_between_kill_and_resume_is_named(made, tmp_path, monkeypatch, case):
    arguments, change, message = CHANGES[case]
    for source in made.rglob("*"):
        target = tmp_path / source.relative_to(made)
        target.mkdir(exist_ok=True) if source.is_dir() else target.write_bytes(source.read_bytes())

    def train(*args, **kwargs):
        raise RuntimeError("killed")

    monkeypatch.setattr("kbert.training.loop.train", train)
    corpus = importlib.import_module("kbert.pretraining.run.corpus_data")
    monkeypatch.setattr(corpus.CorpusData, "choose_packing", lambda *args: False)
    monkeypatch.setattr(corpus.CorpusData, "evaluations", lambda *args: [[None]])  # what is read is looked at before
    monkeypatch.setattr(corpus.CorpusData, "describe", lambda *args: corpus.DataReport([1.0], {}, None))
    monkeypatch.setattr("kbert.inspection.board.tensor_board.run_board", lambda *args, **options: None)
    with pytest.raises(RuntimeError, match="killed"):
        run_kbert(*arguments(tmp_path))
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    with pytest.raises(RuntimeError, match="killed"):  # the same inputs: it resumes
        run_kbert(*arguments(tmp_path))
    change(tmp_path)
    with pytest.raises(SystemExit, match=f"error: .*{message}.*Restore the original inputs") as error:
        run_kbert(*arguments(tmp_path))
    assert "\n" not in str(error.value)
    after = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    before.pop(tmp_path / "run" / ".lock")
    after.pop(tmp_path / "run" / ".lock", None)
    assert after == before
