"""The Python of README and docs runs, in the order of each page, with small stand-ins for models and data.

docs/serving.md has a test of its own. What each page calls is there and takes the arguments that it gives: that is
looked up for all pages; those of which the calls are also made elsewhere are run in the nightly alone.
"""

import ast
import contextlib
import dataclasses
import inspect
import io
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.google_checkpoints import ORIGINAL
from helpers.hf_directory import edit
from helpers.paths import ROOT
from helpers.stored_models import make_model, save
from helpers.tiny_bert import tiny_tokenizer
from helpers.tiny_corpus import make_documents, make_tokenizer, write_lines
from helpers.tiny_directory import BAD, GOOD, sentences, write_table, write_tiny_directory

import kbert
from kbert.options import Options
from kbert.text.vocabulary import write_vocabulary
from kbert.weights.keras_hub_bridge import write_preset

pytestmark = pytest.mark.usefixtures("eagerly")


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.M | re.S)


def run(page, smaller={}, names=None):  # noqa: B006
    """Runs the page's blocks with the replacements `smaller`; gives the names that they leave."""
    names, code = {} if names is None else names, "\n".join(blocks(page))
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
    "steps=40_000": "steps=1, sequence_length=16, evaluation_batches=1, held_out=0.2, packed=False",
}


def test_the_first_page(place, capsys):
    write_table(place / "reviews.csv", sentences(80), header=("review", "stars"))
    smaller = {
        '"saved_models/kbert-mini-sentiment"': repr(str(ROOT / "saved_models/kbert-mini-sentiment")),
        '"google-bert/bert-base-uncased"': '"runs/tiny"',
        '"saved_models/kbert-mini"': repr(str(ROOT / "saved_models/kbert-mini")),
        "epochs=3": "steps=2, batch_size=8, sequence_length=16",
    }
    names = run("README.md", smaller)
    said = re.findall(r"^print\(.*  # (\[.*\])$", blocks("README.md")[0], re.M)
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[")]  # not Keras's progress
    assert len(said) == 3 and printed == said
    assert set(names["run"].metrics["dev"]) >= {"accuracy", "loss"}
    assert names["run"].pipeline.predict(["the good film ."])["label"][0] in ("bad", "good")
    assert (place / "exported/1/saved_model.pb").is_file()
    ids = np.array([[1, 2, 3], [4, 5, 6]])
    batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    assert 0.5 < names["classifier"].evaluate(batch, {"logits": np.array([0, 2])}, verbose=0)[0] < 2  # near log(3)


def test_fine_tuning(place):
    for name in ("reviews.csv", "test.csv"):
        write_table(place / name, sentences(40))
    run("docs/fine-tuning.md", {"epochs=6": "epochs=1", "saved_models/kbert-tiny": "runs/tiny"})
    assert (place / "runs/reviews/model").is_dir()


def test_question_answering(place):
    rows = [(f"very {word} ?", f"the {word} film . a {word} song .", f"{word} song") for word in (*GOOD, *BAD)]
    write_table(place / "questions.csv", rows, header=("question", "context", "answer"))
    task = "SpanExtraction(doc_stride=4, max_query_length=4)"
    smaller = {"epochs=2": "epochs=1, sequence_length=16", "runs/squad2": "runs/tiny", "SpanExtraction()": task}
    names = run("docs/question-answering.md", smaller)
    assert len(names["dev"]) == 1
    assert names["answers"]["answer"].shape == (1,) and (place / "runs/questions/model").is_dir()


SHIPPED = {'"saved_models/': f'"{ROOT}/saved_models/'}


@pytest.mark.slow  # the calls of all pages: test_what_pages_call_takes_their_arguments; README has a run
def test_pre_training(place):
    names = run("docs/pretraining.md", {'output="runs/tiny"': 'output="runs/new"'} | PRETRAIN | SHIPPED)
    assert names["run"].metrics["steps"] == 1
    assert "angioplasty" in (place / "models/medical/vocab.txt").read_text().splitlines()


@pytest.mark.slow  # the calls of all pages: test_what_pages_call_takes_their_arguments
def test_fill_mask(place):
    (place / "reviews.txt").write_text("\n".join(text for text, _ in sentences(8)))
    quick = {"[500:]": "[4:]", "[:500]": "[:4]", "epochs=3": "epochs=1", "sequence_length=128": "sequence_length=16"}
    names = run("docs/fill-mask.md", quick | SHIPPED)
    assert np.isfinite(names["history"].history["loss"]).all()
    assert names["answers"]["tokens"].shape[::2] == (1, 5)


@pytest.mark.slow  # tiny models, number by number: models/test_export_formats.py
@pytest.mark.parity
def test_phones_and_onnx(place):
    pytest.importorskip("ai_edge_litert", reason="needs the extra mobile")
    pytest.importorskip("tf2onnx", reason="needs the extra mobile")
    run("docs/export-options.md", SHIPPED)
    assert (place / "sst2.tflite").stat().st_size > 1e6 and (place / "sst2.onnx").stat().st_size > 1e6


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
    pytest.importorskip("faiss")  # of the extra `test`
    write_table(place / "duplicates.csv", [(text, text + " .") for text, _ in sentences(24)], ("question", "duplicate"))
    tiny = kbert.load_pretrained(place / "runs/tiny", "regression")
    kbert.save_pretrained(kbert.build_pipeline(tiny, pair=True), place / "runs/relevance")
    smaller = {"sentence-transformers/all-MiniLM-L6-v2": "runs/tiny", "sequence_length=64": "sequence_length=9"}
    names = run("docs/embeddings.md", smaller | {"batch_size=64": "batch_size=8, epochs=1"})
    assert names["found"].rows.shape == (1, 2) and names["index"].shape == names["vectors"].shape
    assert set(names["best"]) == set(names["results"])
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


@pytest.mark.slow  # the calls of all pages: test_what_pages_call_takes_their_arguments
def test_concepts(place, caplog):
    names = run("docs/concepts.md", {"steps_per_epoch=20": "steps_per_epoch=2", "epochs=2": "epochs=1"})
    assert "classifier_head: newly initialised (2 variables not in pretrained)" in caplog.text
    assert names["documents"][0] == ["the cat sat on the mat", "it was a warm mat", "the cat slept"]
    assert {name: tuple(value.shape) for name, value in names["outputs"].items()} == {
        "mlm_logits": (8, 3, names["tokenizer"].vocabulary_size),
        "nsp_logits": (8, 2),
    }
    assert sorted(names["inputs"]) == ["mask_positions", "padding_mask", "segment_ids", "token_ids"]
    assert names["answers"]["tokens"].shape == (1, 8, 3) and names["answers"]["count"] == [1]
    assert (place / "saved_models/pets/1/saved_model.pb").is_file()
    assert names["serve"](text=tf.constant(["the dog ran"]))["label"].numpy()[0] in (b"cat", b"dog")


def test_tokenizer():
    names = run("docs/tokenizer.md")
    tokenizer, text = names["tokenizer"], names["text"]
    assert tokenizer.detokenize(tokenizer(["Hello naïve worlds!", "中"])).numpy()[0] == b"hello naive worlds !"
    spans = zip(names["starts"].numpy(), names["ends"].numpy(), strict=True)
    assert [text[start:end] for start, end in spans] == ["Where", "is", "Nai\u0308ve", "?"]
    assert tokenizer.unk_id not in names["ids"].numpy()
    assert names["prompt"]("Hello [MASK]!").numpy().tolist() == [5, 4, 8]
    assert "word" in names["tokens"] and len(names["tokens"]) <= 100


@pytest.mark.slow  # the calls of all pages: test_what_pages_call_takes_their_arguments
def test_data_and_corpora(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run("docs/data.md")
    assert sorted(names["inputs"]) == ["mask_positions", "padding_mask", "segment_ids", "token_ids"]
    assert names["packed_inputs"].keys() - names["inputs"].keys() == {"part_ids", "position_ids"}
    assert names["packed_labels"]["nsp_logits"].shape == (8, 4)
    write_vocabulary(tmp_path / "vocab.txt", names["tokenizer"].vocabulary)
    names = run("docs/corpora.md")
    assert names["novel"] == [
        "CHAPTER I.",
        "Mr. Smith walked slowly over the old bridge, which was narrow and none too safe, and looked down.",
        '"Why?" he asked.',
        "Nobody answered.",
    ]
    assert names["detect_format"](open("novel.txt")) == "prose"
    assert "random next sentence" in capsys.readouterr().out and (tmp_path / "wiki.tfrecord").is_file()


MIGRATED = {  # what docs/migrate.md loads, small
    "bert-base-uncased": ("pretraining", "huggingface"),
    "my-classifier": ("classification", "huggingface"),
    "uncased_L-12_H-768_A-12": ("pretraining", "google"),
    "presets/bert_base_en_uncased": ("masked_lm as KerasHub's", "kerashub"),
}


_CALL = r"(\w+ = )?(kbert|keras|model|layers|classifier|pipeline|from_keras_hub|to_keras_hub)[.(]"


def snippets(page):
    """The blocks of Python, and of the tables the code in a row's last cell, in order."""
    block = None
    for line in page.splitlines():
        if line.startswith("```"):
            if block:
                yield "\n".join(block)
            block = [] if line == "```python" else None
        elif block is not None:
            block.append(line)
        elif line.startswith("| "):
            yield from (code for code in re.findall(r"`([^`]+)`", line.split("|")[-2]) if _is_call(code))


def _is_call(code):
    """Whether it is a whole call, without an ellipsis for further arguments."""
    return "…" not in code and re.match(_CALL, code) is not None


@pytest.mark.slow  # the pages of what it calls
def test_every_call_of_the_migration_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (model, format) in MIGRATED.items():
        if format == "kerashub":
            write_preset(make_model(model, max_sequence_length=128, num_layers=1), name, tiny_tokenizer())
            continue
        save(make_model(model, max_sequence_length=128, num_layers=1), name, format)
        # As other programs write them.
        (tmp_path / name / ("kbert_settings.json" if format == "google" else "kbert.json")).unlink()
        if format == "huggingface":
            edit(tmp_path / name / "config.json", kbert=...)
    (tmp_path / "pretraining_output").mkdir()
    for file in ORIGINAL.iterdir():
        shutil.copy(file, tmp_path / "pretraining_output" / file.name.replace("bert_model.ckpt", "model.ckpt-20000"))
    codes, names = list(snippets((ROOT / "docs/migrate.md").read_text("utf-8"))), {}
    assert len(codes) > 50
    with contextlib.redirect_stdout(io.StringIO()):
        for code in codes:
            exec(compile(code, f"docs/migrate.md: {code}", "exec"), names)
    assert names["masked_lm"].task == "masked_lm"
    assert (tmp_path / "saved_models/strings/1/saved_model.pb").is_file()
    with contextlib.redirect_stdout(io.StringIO()):
        assert kbert.load_pretrained("out").task == "classification"
        assert kbert.weights.from_keras_hub("preset").task == "masked_lm"


def test_every_page_with_python_is_run():
    here = "concepts corpora data distillation embeddings export-options fill-mask fine-tuning migrate pretraining"
    here += " question-answering quickstart tokenizer training"
    pages = {path.stem for path in (ROOT / "docs").glob("*.md") if blocks(f"docs/{path.name}")}
    assert pages == {*here.split(), "serving", "beam"}  # beam: tests/recipes/test_predict_with_beam.py


def _found(node, names):
    """What a dotted name of a page stands for: of an import, or of kbert or keras; None for what the page makes."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    owner = _found(node.value, names) if isinstance(node, ast.Attribute) else None
    return getattr(owner, node.attr) if inspect.ismodule(owner) else None


def test_what_pages_call_takes_their_arguments():
    """Every function and class that a page calls by its public name, without running it."""
    checked = {}
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        trees = [ast.parse(code) for code in blocks(path.relative_to(ROOT))]
        names = {"kbert": kbert, "keras": keras}
        imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), path.name, "exec"), names)
        for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
            called = _found(call.func, names)
            if not str(getattr(called, "__module__", "")).startswith("kbert"):
                continue
            given = {word.arg: None for word in call.keywords if word.arg}
            is_whole = len(given) == len(call.keywords) and not any(isinstance(a, ast.Starred) for a in call.args)
            signature = inspect.signature(called)
            groups = [each.default for each in signature.parameters.values() if isinstance(each.default, Options)]
            of_groups = {field.name for group in groups for field in dataclasses.fields(group)}
            given = {name: value for name, value in given.items() if name not in of_groups}
            try:
                (signature.bind if is_whole else signature.bind_partial)(*call.args, **given)
            except TypeError as error:
                raise AssertionError(f"{path.name}, {ast.unparse(call)}: {error}") from error
            checked.setdefault(path.stem, set()).add(called.__name__)
    assert {"concepts", "corpora", "data", "distillation", "fill-mask", "migrate", "pretraining"} <= checked.keys()
    assert sum(map(len, checked.values())) > 80, checked
