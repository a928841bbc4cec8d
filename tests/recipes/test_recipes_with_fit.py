"""The recipes in which one sees `fit`: what they leave, and that a second call finds the run finished."""

import csv
import gzip
import inspect
import json
import os
import re
import signal
import types

import distill
import embeddings
import keras
import pytest
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import RECIPES, as_flags, import_recipe, read_json, run_recipe
from helpers.tiny_corpus import make_documents
from helpers.tiny_directory import sentences, write_table, write_tiny_directory
from helpers.toy_glue import write_toy_glue
from helpers.toy_tags import tagged_sentences, write_conll

import kbert
from kbert.corpus.write_records import write_records
from kbert.training.signals import Interrupted

SHORT = as_flags(epochs=1, batch_size=8, sequence_length=16, learning_rate=1e-3)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    write_table(path / "reviews.csv", sentences(20))
    write_conll(path / "train.conll", tagged_sentences(16))
    write_conll(path / "dev.conll", tagged_sentences(8, start=16))
    with open(path / "stars.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("text", "label", "stars"))
        rows.writerows((text, label, 5 if label == "good" else 1) for text, label in sentences(20))
    asked = [{"id": str(n), "question": "the", "answers": [{"text": "film", "answer_start": 4}]} for n in range(16)]
    squad = {"version": "1.1", "data": [{"paragraphs": [{"context": "the film .", "qas": asked}]}]}
    (path / "squad.json").write_text(json.dumps(squad))
    tokenizer = kbert.BertTokenizer(path / "init/vocab.txt")
    write_records(make_documents(40), tokenizer, path / "records", held_out=0.2)
    return path


@pytest.fixture(autouse=True)
def eagerly():
    with run_eagerly():
        yield


@pytest.fixture
def few_batches(monkeypatch):
    """Two batches are held out, not 50; a second call has the datasets of the first: a finished run reads none."""
    recipe = import_recipe("pretrain")
    made, pretraining_dataset = {}, recipe.pretraining_dataset

    def few(*arguments, evaluation=False, batches=None, **options):
        if evaluation not in made:
            which = {"evaluation": True, "batches": 2} if evaluation else {}
            made[evaluation] = pretraining_dataset(*arguments, **which, **options)
        return made[evaluation]

    monkeypatch.setattr(recipe, "pretraining_dataset", few)


@pytest.mark.usefixtures("few_batches")
def test_pretrain(home, tmp_path):
    output = tmp_path / "new"
    flags = as_flags(records=home / "records", output=output, steps=2, steps_per_epoch=1, batch_size=4)
    first = run_recipe("pretrain", *flags, *as_flags(sequence_length=16))
    assert len(first["loss"]) == len(first["val_loss"]) == 2
    assert kbert.load_pretrained(output).task == "pretraining"
    assert run_recipe("pretrain", *flags, *as_flags(sequence_length=16)) == {}  # the run is finished
    assert len((output / "history.jsonl").read_text().splitlines()) == 2
    with pytest.raises(SystemExit, match="`steps` must be a multiple of `steps_per_epoch`. Received: 2 and 500"):
        run_recipe("pretrain", *as_flags(records=home / "records", output=tmp_path / "other", steps=2))
    assert not (tmp_path / "other").exists()


def test_pretrain_with_fit_refuses_files_in_its_output_before_the_work(home, tmp_path):
    (tmp_path / "notes.txt").touch()
    flags = as_flags(texts=home / "none.txt", model=home / "init", output=tmp_path)
    with pytest.raises(SystemExit, match="expected a new directory. Received: one with files"):
        run_recipe("pretrain_with_fit", *flags)


def test_classify(home, tmp_path):
    table = tmp_path / "reviews.csv"
    table.write_text((home / "reviews.csv").read_text())
    flags = as_flags(table=table, source=home / "init", output=tmp_path / "run")
    scores = run_recipe("classify", *flags, *SHORT)
    pipeline = kbert.build_pipeline(kbert.load_pretrained(tmp_path / "run"))
    assert pipeline.answers.labels == ("bad", "good") and pipeline.preprocessor.sequence_length == 16
    assert run_recipe("classify", *flags, *SHORT) == scores
    stored = read_json(tmp_path / "run/model/kbert.json")
    with pytest.raises(SystemExit, match=r"a run with other settings \(seed: 0 there, 7 now\). Take another"):
        run_recipe("classify", *flags, *SHORT, "--seed", 7)
    table.write_text(table.read_text().replace("good", "ant").replace("bad", "zebra"))
    with pytest.raises(SystemExit, match=r"reviews.csv \(--table\) has changed"):
        run_recipe("classify", *flags, *SHORT)
    assert read_json(tmp_path / "run/model/kbert.json") == stored


@pytest.mark.parametrize("name", ["classify", pytest.param("two_tasks", marks=pytest.mark.slow)])
def test_a_recipe_resumes_in_the_middle_of_an_epoch(home, tmp_path, monkeypatch, name):
    options = {"epochs": 2, "batch_size": 4, "sequence_length": 16, "learning_rate": 1e-3}

    def run(output):
        return import_recipe(name).COMMAND.verb(home / "stars.csv", home / "init", tmp_path / output, **options)

    def interrupted(self, batch, logs=None):
        ends(self, batch, logs)
        if self.step == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    ends = kbert.training.ExactResume.on_train_batch_end
    whole = run("whole")
    with monkeypatch.context() as patch, pytest.raises(Interrupted, match="after step 7"):
        patch.setattr(kbert.training.ExactResume, "on_train_batch_end", interrupted)
        run("run")
    assert run("run") == whole


def test_every_recipe_that_resumes_compares_settings_and_inputs():
    resuming = [path for path in RECIPES.glob("*.py") if "ExactResume(" in path.read_text()]
    assert len(resuming) == 7
    for path in resuming:
        text = path.read_text()
        assert "settings=settings, inputs=files" in text and "record(" in text
        names = re.search(r" files = {(.*)}", text)[1]
        parameters = inspect.signature(import_recipe(path.stem).COMMAND.verb).parameters
        assert ('"source"' in names) == ("source" in parameters)
        assert set(re.findall(r'"(\w+)"', names)) <= set(parameters)


def test_answer_questions(home, tmp_path):
    flags = as_flags(train=home / "squad.json", dev=home / "squad.json", source=home / "init", output=tmp_path)
    more = as_flags(doc_stride=4, max_query_length=4)
    scores = run_recipe("answer_questions", *flags, *SHORT, *more)
    assert set(scores) >= {"exact", "f1"}
    model = kbert.load_pretrained(tmp_path)
    settings = model.pretrained.settings.task
    assert (model.task, settings.doc_stride, settings.null_threshold) == ("span", 4, None)


def test_answer_questions_chooses_when_there_is_no_answer(home, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.Model, "fit", lambda *arguments, **options: None)  # the weights do not matter
    answer = {"text": "film", "answer_start": 0}
    asked = [
        {"id": str(n), "question": "the", "is_impossible": n % 4 > 0, "answers": [] if n % 4 else [answer]}
        for n in range(16)
    ]
    squad = {"version": "v2.0", "data": [{"paragraphs": [{"context": "film book .", "qas": asked}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    flags = as_flags(train=tmp_path / "squad.json", dev=tmp_path / "squad.json", source=home / "init")
    flags += as_flags(output=tmp_path / "run", doc_stride=4, max_query_length=4)
    scores = run_recipe("answer_questions", *flags, *SHORT)
    assert (scores["NoAns_exact"], scores["exact"]) == (100, 75)
    pipeline = kbert.build_pipeline(tmp_path / "run")
    assert pipeline.answers.null_threshold is not None
    assert pipeline.predict({"question": ["the"], "context": ["film book ."]}, verbose=0)["answer"].tolist() == [""]


def write_corpus(path, pairs):
    if pairs == "titles":
        articles = [f'<doc id="{n}" title="Film {n}">\nFilm {n}\n\nThe film {n}. Bad.\n\n</doc>\n' for n in range(24)]
        with gzip.open(path, "wt") as file:
            file.writelines(articles)
    else:
        documents = [[f"the film {n} {m} is good" for m in range(4)] for n in range(8)]
        path.write_bytes(gzip.compress("\n\n".join(map("\n".join, documents)).encode()))


def test_what_belongs_together(tmp_path):
    expected = {
        "same": ["the film 0 0 is good", "the film 0 1 is good"],
        "neighbours": [(f"the film 0 {n} is good", f"the film 0 {n + 1} is good") for n in (0, 1)],
        "titles": [("Film 0", "The film 0"), ("Film 1", "The film 1")],
    }
    for pairs, first in expected.items():
        write_corpus(tmp_path / "wiki.gz", pairs)
        found = embeddings.pairs_of(str(tmp_path / "wiki.gz"), pairs, 16)
        assert found[:2] == first and len(found) == len(set(found)) == 16
        assert embeddings.pairs_of(str(tmp_path / "wiki.gz"), pairs, 5) == found[:5]
        if pairs == "neighbours":  # three pairs of a document's four sentences
            assert found[3] == ("the film 1 0 is good", "the film 1 1 is good")
        (tmp_path / "wiki_00").write_bytes(gzip.decompress((tmp_path / "wiki.gz").read_bytes()))
        assert embeddings.pairs_of(str(tmp_path / "wiki_00"), pairs, 16) == found


# The other pairs: test_what_belongs_together; a training on such pairs: tasks/test_similarity.py.
@pytest.mark.slow  # tasks/test_similarity.py; test_pages.py::test_embeddings
@pytest.mark.parametrize("pairs", ["same", "neighbours", "titles"])
def test_embeddings(home, tmp_path, pairs):
    write_corpus(tmp_path / "wiki.gz", pairs)
    words = ("good film", "bad", "paris is good", "never", "the capital of france")
    scored = [(one, other, len(one) % 5) for one in words for other in words]
    write_table(tmp_path / "dev.tsv", scored, ("sentence1", "sentence2", "score"))
    flags = as_flags(corpus=tmp_path / "wiki.gz", source=home / "init", output=tmp_path / "run", sts_b=tmp_path)
    flags += as_flags(pairs=pairs, batch_size=8, sequence_length=16, examples=16)
    scores = run_recipe("embeddings", *flags)
    assert -1 <= scores["after"]["spearman"] <= 1 and scores["after"] != scores["before"]
    assert kbert.load_pretrained(tmp_path / "run").task == "similarity"
    assert run_recipe("embeddings", *flags) == scores


@pytest.mark.slow  # finetuning/test_distillation.py
def test_distill(home, tmp_path, monkeypatch):
    calls, finetune = {}, kbert.finetune

    def counted(source, task, train, dev, output, **options):
        calls[str(output.relative_to(tmp_path / "runs"))] = {"source": str(source), **options}
        return finetune(source, task, train, dev, output, **options)

    monkeypatch.setattr(kbert, "finetune", counted)
    write_toy_glue(tmp_path / "glue")
    students = [write_tiny_directory(tmp_path / "student/model").parent]
    flags = as_flags(teacher=home / "init", students=students, glue=tmp_path / "glue", output=tmp_path / "runs")
    flags += as_flags(tasks=["SST-2:40", "MRPC:16"], unlabelled=8, seeds=0, epochs=0.5, batch_size=8)
    flags += as_flags(sequence_length=16)
    results = run_recipe("distill", *flags)
    assert set(results["SST-2"]) >= {"teacher", "student, alone", "student, taught", "student, taught with 8 texts"}
    assert results["SST-2"]["examples"] == 40 and len(results["MRPC"]["student, taught"]) == 1
    assert json.loads((tmp_path / "runs/results.json").read_text())["tasks"] == results
    kinds = ("teacher", "student-alone-0", "student-taught-0", "student-taught-with-8-texts-0")
    assert list(calls) == [f"{task}/{kind}" for task in ("SST-2", "MRPC") for kind in kinds]
    for name, call in calls.items():
        assert call["source"] == str(home / "init" if name.endswith("/teacher") else students[0])
        taught = "-taught-" in name
        assert call.get("teacher") == (tmp_path / "runs" / name.split("/")[0] / "teacher" if taught else None)
        texts = call.get("unlabelled", {}).values()
        assert [len(column) for column in texts] == ([8] * (1 + ("MRPC" in name)) if "-with-" in name else [])
    assert run_recipe("distill", *flags) == results and len(calls) == 8


def test_distill_says_what_it_did(home, tmp_path, monkeypatch):
    seeds = {}

    def finetune(source, task, train, dev, output, **options):
        seeds[output.name] = options["seed"]
        output.mkdir(parents=True)
        return types.SimpleNamespace(metrics={"dev": dict.fromkeys(task.metrics, 0.5)})

    monkeypatch.setattr(kbert, "finetune", finetune)
    write_toy_glue(tmp_path / "glue")
    others = len(kbert.tasks.glue("SST-2").read(tmp_path / "glue", "train")) - 24
    options = {"tasks": ["SST-2:24"], "unlabelled": 100_000, "seeds": (3, 4)}
    results = distill.distill(home / "init", [str(home / "init")], tmp_path / "glue", tmp_path / "runs", **options)
    assert f"init, taught with {others} texts" in results["SST-2"]
    assert seeds["teacher"] == 3 and {seed for name, seed in seeds.items() if name != "teacher"} == {3, 4}
    settings = json.loads((tmp_path / "runs/results.json").read_text())["settings"]
    assert (settings["unlabelled"], settings["seeds"]) == (100_000, [3, 4])


def test_distill_never_takes_the_scores_of_another_run(home, tmp_path):
    write_toy_glue(tmp_path / "glue")

    def run(students=(), tasks=("SST-2:40",), epochs=0.5):
        options = {"tasks": tasks, "epochs": epochs, "batch_size": 8, "sequence_length": 16}
        return distill.distill(home / "init", list(students), tmp_path / "glue", tmp_path / "runs", **options)

    first = run()
    assert run() == first
    for more, changed in (
        ({"epochs": 1.0}, r"teacher holds a finished run with other settings \(epochs"),
        ({"tasks": ["SST-2:24"]}, "other rows in train"),
    ):
        with pytest.raises((FileExistsError, ValueError), match=changed):
            run(**more)
    students = [write_tiny_directory(tmp_path / folder / "student") for folder in ("a", "b")]
    for more in ({"students": map(str, students)}, {"tasks": ["SST-2:40", "SST-2"]}):
        with pytest.raises(ValueError, match="of different names"):
            run(**more)


def test_find_entities(home, tmp_path):
    flags = as_flags(train=home / "train.conll", dev=home / "dev.conll", source=home / "init", output=tmp_path)
    scores = run_recipe("find_entities", *flags, *SHORT)
    assert run_recipe("find_entities", *flags, *SHORT) == scores
    assert "B-CON" in kbert.load_pretrained(tmp_path).pretrained.settings.task.labels


@pytest.mark.slow  # models/test_shared_encoder.py
def test_two_tasks(home, tmp_path):
    flags = as_flags(table=home / "stars.csv", source=home / "init", output=tmp_path)
    scores = run_recipe("two_tasks", *flags, *SHORT)
    assert set(scores) >= {"loss", "sentiment_accuracy", "stars_mae"}
    model = keras.models.load_model(tmp_path / "two.keras")
    assert model.output["stars"].shape == (None, 1)
    assert run_recipe("two_tasks", *flags, *SHORT) == pytest.approx(scores)
