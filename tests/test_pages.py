"""The Python of README and docs runs, in the order of each page, with small stand-ins for models and data.

Concepts, data, tokenizer, migration and serving pages have tests of their own, which look at what the code gives.
"""

import re

import keras
import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.tiny_corpus import make_documents, make_tokenizer, write_lines
from helpers.tiny_directory import BAD, GOOD, sentences, write_table, write_tiny_directory

import kbert
from kbert.text.vocabulary import write_vocabulary

pytestmark = pytest.mark.usefixtures("eagerly")


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.M | re.S)


def run(page, smaller, names=None):
    """Runs the page's blocks with the replacements `smaller`; gives the names that they leave."""
    names = {} if names is None else names
    code = "\n".join(blocks(page))
    for written, instead in smaller.items():
        assert written in code, f"{page} no longer says {written}"
        code = code.replace(written, instead)
    exec(compile(code, page, "exec"), names)
    return names


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory of a reader: a tiny model, tables, a corpus and its vocabulary."""
    monkeypatch.chdir(tmp_path)
    write_tiny_directory(tmp_path / "runs/tiny")
    (tmp_path / "corpus").mkdir()
    write_lines(tmp_path / "corpus/one.txt", make_documents(60))
    write_vocabulary(tmp_path / "vocab.txt", make_tokenizer().vocabulary)
    return tmp_path


@pytest.fixture(scope="module", autouse=True)
def _one_pretraining():
    """README and docs/pretraining.md have the same call, which is run once."""
    runs, pretrain = {}, kbert.pretrain

    def once(*arguments, **options):
        key = repr((arguments, options))
        if key not in runs:
            runs[key] = pretrain(*arguments, **options)
        return runs[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kbert, "pretrain", once)
        yield


PRETRAIN = {
    "steps=40_000": "steps=1, batch_size=4, sequence_length=16, evaluation_batches=1, held_out=0.2, packed=False",
}


def test_the_first_page(place):
    write_table(place / "reviews.csv", sentences(80), header=("review", "stars"))
    smaller = {
        '"saved_models/kbert-mini-sentiment"': repr(str(ROOT / "saved_models/kbert-mini-sentiment")),
        '"google-bert/bert-base-uncased"': '"runs/tiny"',
        '"saved_models/kbert-mini"': repr(str(ROOT / "saved_models/kbert-mini")),
        "epochs=3": "epochs=1",
    }
    names = run("README.md", smaller)
    assert set(names["run"].metrics["dev"]) >= {"accuracy", "loss"}
    assert names["run"].pipeline.predict(["the good film ."])["label"][0] in ("bad", "good")
    assert (place / "exported/1/saved_model.pb").is_file()
    ids = np.array([[1, 2, 3], [4, 5, 6]])
    batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    assert 0.5 < names["classifier"].evaluate(batch, {"logits": np.array([0, 2])}, verbose=0)[0] < 2  # near log(3)


def test_fine_tuning(place):
    for name in ("reviews.csv", "test.csv"):
        write_table(place / name, sentences(40))
    names = run("docs/fine-tuning.md", {"epochs=6": "epochs=1", "saved_models/kbert-tiny": "runs/tiny"})
    assert names["run"].metrics["dev"]["accuracy"] >= 0 and (place / "runs/reviews/model").is_dir()


def test_question_answering(place):
    rows = [(f"very {word} ?", f"the {word} film . a {word} song .", f"{word} song") for word in (*GOOD, *BAD)]
    write_table(place / "questions.csv", rows, header=("question", "context", "answer"))
    task = "SpanExtraction(doc_stride=4, max_query_length=4)"
    smaller = {"epochs=2": "epochs=1, sequence_length=16", "runs/squad2": "runs/tiny", "SpanExtraction()": task}
    names = run("docs/question-answering.md", smaller)
    assert len(names["dev"]) == 1 and names["run"].metrics["dev"]["f1"] >= 0
    assert names["answers"]["answer"].shape == (1,) and (place / "runs/questions/model").is_dir()


def test_pre_training(place):
    names = run("docs/pretraining.md", {'output="runs/tiny"': 'output="runs/new"'} | PRETRAIN)
    assert names["run"].metrics["steps"] == 1


@pytest.mark.slow  # it trains
def test_quickstart_and_training(place, caplog):
    from kbert.pretraining.dataset import pretraining_dataset

    corpus = place / "runs/quickstart/corpus.txt"
    corpus.parent.mkdir(parents=True)
    write_lines(corpus, make_documents(300))
    smaller = {"5000": "100", "batch_size=64": "batch_size=4", "steps_per_epoch=100, epochs=10": "steps_per_epoch=2"}
    tokenizer = run("docs/quickstart.md", smaller)["tokenizer"]
    assert (place / "saved_models/by-hand/1/saved_model.pb").is_file()

    def make_dataset(start_step):
        return pretraining_dataset(
            corpus, tokenizer, batch_size=4, sequence_length=16, max_predictions=3, start_step=start_step
        )

    keras.utils.set_random_seed(1)
    smaller = {"10_000": "4", "warmup_steps=100": "warmup_steps=1", "8000": "100", "runs/tiny": "runs/by-step"}
    run("docs/training.md", smaller, {"make_dataset": make_dataset})
    assert "step 4/4" in caplog.text and (place / "runs/by-step/history.jsonl").is_file()


def test_embeddings(place):
    write_table(place / "duplicates.csv", [(text, text + " .") for text, _ in sentences(24)], ("question", "duplicate"))
    tiny = kbert.load_pretrained(place / "runs/tiny", "regression")
    kbert.save_pretrained(kbert.build_pipeline(tiny, pair=True), place / "runs/relevance")
    smaller = {"sentence-transformers/all-MiniLM-L6-v2": "runs/tiny", "sequence_length=64": "sequence_length=9"}
    names = run("docs/embeddings.md", smaller | {"batch_size=64": "batch_size=8, epochs=1"})
    assert names["found"].rows.shape == (1, 2) and set(names["best"]) == set(names["results"])
    assert set(names["run"].metrics["dev"]) == {"examples", "recall@1", "recall@10", "mrr@10", "ndcg@10"}


def test_distillation(place):
    rows = [(text, label, label) for text, label in sentences(24)]
    write_table(place / "reviews.csv", rows, ("review", "stars", "label"))
    write_table(place / "more.csv", [(text,) for text, _ in sentences(8, start=24)], ("review",))
    smaller = dict.fromkeys(("google-bert/bert-base-uncased", "saved_models/kbert-mini"), "runs/tiny")
    quick = {"learning_rate=3e-5": "sequence_length=9, epochs=1", "epochs=6": "sequence_length=9, epochs=1"}
    names = run(
        "docs/distillation.md", smaller | quick | {'"runs/student"': '"runs/small"', '"runs/teacher"': '"runs/large"'}
    )
    assert names["run"].metrics["unlabelled_examples"] == 8


def test_every_page_with_python_is_run():
    elsewhere = {"concepts.md", "corpora.md", "data.md", "migrate.md", "serving.md", "tokenizer.md"}
    here = {
        "distillation.md",
        "embeddings.md",
        "fine-tuning.md",
        "pretraining.md",
        "question-answering.md",
        "quickstart.md",
        "training.md",
    }
    assert {path.name for path in (ROOT / "docs").glob("*.md") if blocks(f"docs/{path.name}")} == elsewhere | here
