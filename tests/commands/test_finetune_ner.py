"""Named entities: what the recipe learns, leaves, takes up again and refuses; predict.py and evaluate.py on it."""

import contextlib
import io
import json

import pytest
from helpers.run_recipe import FINETUNED, as_flags, read_json, run_kbert
from helpers.tiny_directory import write_tiny_directory
from helpers.tiny_finetuning import start
from helpers.toy_tags import tagged_sentences, write_conll

import kbert
from kbert.tasks.tagging.readers import read_conll
from kbert.tasks.tagging.tag_scheme import entity_scores
from kbert.training import dry_run

QUICK = as_flags(
    batch_size=8,
    sequence_length=16,
    learning_rate=3e-3,
    checkpoint_every=10,
    dropout=0,
    evaluate_every=60,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    write_conll(path / "train.txt", tagged_sentences(48))
    write_conll(path / "dev.txt", tagged_sentences(14, start=48))
    return path


def _arguments(home, output, *more):
    return (
        *as_flags(train=home / "train.txt", dev=home / "dev.txt", source=home / "init", output=output),
        *QUICK,
        *as_flags(steps=60),
        *more,
    )


@pytest.fixture(scope="module")
def run(home):
    printed, logged = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(logged):
        run_kbert("finetune", "tagging", *_arguments(home, home / "run"))
    assert "f1: " in printed.getvalue() and "\nCON  " in printed.getvalue()
    assert "step 60, dev: loss" in logged.getvalue()
    return home / "run"


@pytest.mark.usefixtures("eagerly")
def test_a_dry_run_counts_sentences_and_windows(home, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        dry_run, "mean_seconds_per_step", lambda *arguments: 0.1
    )  # measured: test_finetune_classifier.py
    run_kbert("finetune", "tagging", *_arguments(home, tmp_path / "run", "--dry-run"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("48 examples in ") and lines[2].startswith("60 steps of 8 rows of ")
    assert not (tmp_path / "run").exists()


def test_it_learns_and_writes_its_predictions(run, home):
    metrics = read_json(run / "metrics.json")
    assert metrics["dev"]["f1"] > 0.95 and set(metrics["dev"]["types"]) == {"CON", "PRO"}
    assert (metrics["dev"]["sentences"], metrics["dev"]["entities"], metrics["train_examples"]) == (14, 14, 48)
    gold, predicted = (read_conll(run / "predictions.txt", tag_column=n) for n in (1, 2))
    assert gold.words == read_conll(home / "dev.txt").words
    scores = entity_scores(gold.tags, predicted.tags)
    assert scores == {name: metrics["dev"][name] for name in scores}
    assert {path.name for path in run.iterdir()} == {*FINETUNED, "predictions.txt"}


@pytest.mark.usefixtures("eagerly")
def test_what_it_leaves_finds_entities(run, home):
    model = kbert.load_pretrained(run)
    settings = model.pretrained.settings
    assert settings.task.labels == ("O", "B-CON", "I-CON", "B-PRO", "I-PRO")
    assert (settings.task.name, settings.sequence_length, settings.task.doc_stride) == ("tagging", 16, 7)
    dev = read_conll(home / "dev.txt")  # all of which the model gets right
    texts = [" ".join(word for row in rows for word in dev.words[row]) for rows in dev.texts()]
    answers = kbert.build_pipeline(model, tagging_output="entities").predict(texts)
    for n, rows in enumerate(dev.texts()):
        assert answers["entities"][n, : answers["count"][n]].tolist() == [" ".join(dev.words[r][1:3]) for r in rows]
        assert answers["types"][n, : answers["count"][n]].tolist() == [dev.tags[r][1][2:] for r in rows]


@pytest.mark.usefixtures("eagerly")
def test_evaluate_and_predict(run, home, tmp_path, capsys):
    run_kbert("evaluate", run, "--examples", home / "dev.txt", "--output", tmp_path / "scores", "--json")
    printed = capsys.readouterr().out
    expected = read_json(run / "metrics.json")["dev"]
    received = json.loads(printed.splitlines()[-1])
    assert received.pop("loss") == pytest.approx(expected["loss"], abs=1e-4)
    assert received == {name: expected[name] for name in received}
    assert "\nPRO  " in printed
    assert (tmp_path / "scores" / "predictions.txt").read_bytes() == (run / "predictions.txt").read_bytes()
    (tmp_path / "texts.txt").write_text("the good film .\n\na dull song\n")
    for answer, key in (("entities", "entity"), ("tags", "word")):
        output = tmp_path / f"{answer}.jsonl"
        run_kbert(
            "predict",
            "--source",
            run,
            "--input",
            tmp_path / "texts.txt",
            "--output",
            output,
            "--tagging-output",
            answer,
        )
        rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
        found = [[one[key] for one in row["entities" if key == "entity" else "words"]] for row in rows]
        assert (
            found
            == {
                "entities": [["good film"], [], ["dull song"]],
                "tags": [["the", "good", "film", "."], [], ["a", "dull", "song"]],
            }[answer]
        )
    with pytest.raises(SystemExit, match="entities.* cannot be written as CSV"):
        run_kbert("predict", "--source", run, "--input", tmp_path / "texts.txt", "--output", tmp_path / "a.csv")


@pytest.mark.parametrize("rare", [0, 7, 19])
def test_what_is_held_out_may_have_the_only_entity_of_a_type(home, tmp_path, rare):
    sentences = [f"-DOCSTART- O\n\nthe O\nfilm B-{'RARE' if n == rare else 'PRO'}\n" for n in range(20)]
    (tmp_path / "train.txt").write_text("\n".join(sentences))
    work = start(home / "init", kbert.tasks.Tagging(), tmp_path / "train.txt", 0.1)
    tags = list(work.pipeline.answers.labels)
    assert (len(work.train), len(work.dev[""])) == (18, 2) and tags == ["O", "B-PRO", "I-PRO", "B-RARE", "I-RARE"]


def test_a_stride_that_would_be_shortened_is_an_error(home, tmp_path):
    with pytest.raises(SystemExit, match="`doc_stride` is at most half a window, 7 of 16 tokens. Received: 8"):
        run_kbert("finetune", "tagging", *_arguments(home, tmp_path / "run", "--doc-stride", 8))


def test_what_is_wrong_is_said_before_anything_is_written(home, tmp_path):
    (tmp_path / "other.txt").write_text("the O\ngood B-OTHER\n")
    (tmp_path / "broken.txt").write_text("the O\n\ngood I-PRO\n\na B-PRO\nfilm O\na B-PRO\n")
    for flags, message in [
        (("--dev", tmp_path / "other.txt"), r"other.txt, line 2: expected one of .* Received: 'B-OTHER'"),
        (("--dev", tmp_path / "broken.txt"), r"broken.txt, line 3: IOB2 allows I-PRO only after"),
    ]:
        with pytest.raises(SystemExit, match=f"error: .*{message}"):
            run_kbert("finetune", "tagging", *_arguments(home, tmp_path / "run", *flags))
    assert not (tmp_path / "run").exists()
