"""finetune_squad.py: what it leaves, and that the stored threshold is applied."""

import json

import pytest
from helpers.run_recipe import FINETUNED, as_flags, read_json, run_kbert
from helpers.tiny_directory import BAD, GOOD, NOUNS, write_tiny_directory

import kbert
from kbert.tasks.span.metrics import squad_scores
from kbert.tasks.span.questions import read_squad

FILES = ("predictions.json", "nbest.json", "null_odds.json")


def articles(count, start=0, none_every=4):
    """Questions for the adjective of a noun, on contexts of up to six windows."""
    data = []
    for n in range(start, start + count):
        pairs = [((GOOD + BAD)[(3 * n + i) % 8], NOUNS[(n + i) % 5]) for i in range(1 + n % 4)]
        context = " ".join(f"\U0001f600 the very {word}ly {noun} ." for word, noun in pairs)
        word, noun = pairs[n % len(pairs)]
        answers = [{"text": f"{word}ly", "answer_start": context.index(f"{word}ly {noun}")}]
        none = none_every and n % none_every == 0
        question = {
            "id": f"q{n}",
            "question": "the play" if none else f"the {noun}",
            "answers": [] if none else answers,
        }
        data.append(
            {"title": "t", "paragraphs": [{"context": context, "qas": [question | {"is_impossible": bool(none)}]}]}
        )
    return data


def write(path, data):
    path.write_text(json.dumps({"version": "x", "data": data}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    lost = {"id": "lost", "question": "the film", "answers": [{"text": "zebra", "answer_start": 0}]}
    more = {"title": "t", "paragraphs": [{"context": "a good film", "qas": [lost]}]}
    write(path / "train-v2.0.json", [*articles(30), more])
    write(path / "dev-v2.0.json", articles(14, 30))
    write(path / "train-v1.1.json", articles(8, none_every=0))
    write(path / "dev-v1.1.json", articles(3, 20, none_every=0))
    return path


def arguments(home, output, *more, version="2.0"):
    return (
        *as_flags(train=home / f"train-v{version}.json", dev=home / f"dev-v{version}.json", version=version),
        *as_flags(source=home / "init", output=output, batch_size=8, sequence_length=16),
        *as_flags(doc_stride=5, max_query_length=3, max_answer_length=4, n_best=5, learning_rate=2e-3),
        *as_flags(checkpoint_every=10, steps=30, evaluate_every=30),
        *more,
    )


@pytest.fixture(scope="module")
def run(home, tmp_path_factory):
    """A finished run, what it printed, and what it logged."""
    import contextlib
    import io

    path, printed, logged = tmp_path_factory.mktemp("runs") / "run", io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(logged):
        run_kbert("finetune", "span", *arguments(home, path, "--json"))
    return path, printed.getvalue(), logged.getvalue()


def test_what_a_run_leaves(home, run):
    path, printed, logged = run
    scores = read_json(path / "metrics.json")
    assert json.loads(printed.splitlines()[-1]) == scores
    assert {entry.name for entry in path.iterdir()} == {*FINETUNED, *FILES}
    assert (scores["train_examples"], scores["dev_examples"], scores["steps"]) == (30, 14, 30)
    assert scores["train_windows"] > 40
    assert "1 of 31 questions are skipped: their answers are not in their contexts word for word" in logged
    assert "(the first: question lost, answer " in logged
    assert "f1: " in printed and "(constant answer: " in printed
    assert "step 30, dev: f1" in logged
    history = [json.loads(line) for line in (path / "history.jsonl").open()]
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]


@pytest.mark.usefixtures("eagerly")
def test_the_threshold_is_stored_and_applied(home, run):
    path, *_ = run
    dev, scores = read_squad(home / "dev-v2.0.json"), read_json(path / "metrics.json")
    predictions, n_best, odds = (read_json(path / name) for name in FILES)
    model = kbert.load_pretrained(path)
    assert model.pretrained.settings.task.null_threshold == scores["null_threshold"]
    pipeline = kbert.build_pipeline(model)
    answers = pipeline.predict(dev.columns, verbose=0)
    assert dict(zip(dev.ids, answers["answer"].tolist(), strict=True)) == predictions
    assert 0 < sum(answer == "" for answer in predictions.values())
    for row, identifier in enumerate(dev.ids):
        assert odds[identifier] == pytest.approx(answers["null_score"][row] - answers["score"][row], abs=1e-4)
        assert (odds[identifier] > scores["null_threshold"]) == (predictions[identifier] == "")
        assert sum(entry["probability"] for entry in n_best[identifier]) == pytest.approx(1, abs=1e-5)
        assert "" in [entry["text"] for entry in n_best[identifier]]
        assert all(entry["text"] in dev.contexts[row] for entry in n_best[identifier])
    official = squad_scores(dev.answers, [predictions[identifier] for identifier in dev.ids])
    assert {name: scores["dev"][name] for name in official} == pytest.approx(official)
    assert scores["dev"]["f1"] == pytest.approx(scores["dev"]["best_f1"])  # the odds of 14 questions differ


@pytest.mark.usefixtures("eagerly")
def test_evaluate(home, run, tmp_path):  # ensembles: test_ensembles.py
    path, *_ = run
    expected = read_json(path / "metrics.json")["dev"]
    data = ("--examples", home / "dev-v2.0.json", "--batch-size", 20)
    run_kbert("evaluate", path, *data, "--output", tmp_path / "one")
    assert read_json(tmp_path / "one" / "metrics.json") == pytest.approx(expected, abs=1e-3)
    assert read_json(tmp_path / "one" / "predictions.json") == read_json(path / "predictions.json")
    kbert.save_pretrained(kbert.build_pipeline(kbert.load_pretrained(path), n_best=2), tmp_path / "other")
    with pytest.raises(SystemExit, match=r"expected the preprocessing and labels of .*Received: other \['n_best'\]"):
        run_kbert("evaluate", path, tmp_path / "other", *data)


@pytest.mark.usefixtures("eagerly")
def test_predict(home, run, tmp_path):
    path, *_ = run
    run_kbert(
        "predict", *as_flags(source=path, input=home / "dev-v2.0.json", output=tmp_path / "a.jsonl", batch_size=20)
    )
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["id"]: row["answer"] for row in rows} == read_json(path / "predictions.json")
    for row in rows:
        assert row["answer"] == ("" if row["start"] < 0 else row["context"][row["start"] : row["end"]])
    table = tmp_path / "own.csv"
    table.write_text("q,c,n\nthe film,the very goodly film .,7\n", encoding="utf-8")
    columns = ("--question", "q", "--context", "c", "--keep", "n")
    run_kbert("predict", "--source", path, "--input", table, *columns, "--output", tmp_path / "b.csv")
    head, row = (tmp_path / "b.csv").read_text(encoding="utf-8").splitlines()
    assert head == "q,c,n,answer,score,start,end,null_score" and row.startswith("the film,the very goodly film .,7,")


@pytest.mark.usefixtures("eagerly")
def test_version_1_1_always_answers(home, tmp_path):
    run_kbert("finetune", "span", *arguments(home, tmp_path / "run", "--steps", 1, "--dropout", 0, version="1.1"))
    scores = read_json(tmp_path / "run" / "metrics.json")
    assert scores["null_threshold"] is None
    assert set(scores["dev"]) == {"exact", "f1", "total"}
    assert all(read_json(tmp_path / "run" / "predictions.json").values())
    dev = read_squad(home / "dev-v1.1.json")
    answers = list(read_json(tmp_path / "run" / "predictions.json").values())
    assert scores["dev"] == pytest.approx(squad_scores(dev.answers, answers, version="1.1"))


def test_what_is_wrong_is_said_before_anything_is_written(home, tmp_path):
    (tmp_path / "train.csv").write_text("question,context,answer\nwho,the film,zebra\n")
    (tmp_path / "dev.csv").write_text("question,context\nwho,the film\n")
    own = ("--train", tmp_path / "train.csv", "--source", home / "init", "--output", tmp_path / "run")
    for more, message in [
        (("--dev", tmp_path / "dev.csv"), "dev.csv, line 1: expected the columns .*missing: .'answer'"),
        (("--dev", tmp_path / "train.csv"), "train.csv: expected contexts that hold the answers. Received: none"),
    ]:
        with pytest.raises(SystemExit, match=f"error: .*{message}"):
            run_kbert("finetune", "span", *own, *more, "--sequence-length", 16)
    assert not (tmp_path / "run").exists()
