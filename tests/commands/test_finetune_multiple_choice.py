"""Multiple choice: what is learnt, taken up again, answered and scored, in every format."""

import json

import pytest
from helpers.run_recipe import as_flags, read_json, run_kbert
from helpers.tiny_directory import BAD, GOOD, NOUNS, write_table, write_tiny_directory
from helpers.wrong_values import wrong_inputs

import kbert

QUICK = ("--batch-size", 8, "--sequence-length", 12, "--learning-rate", 2e-3, "--dropout", 0, "--evaluate-every", 40)


def _questions(count, start=0):
    """(prompt, choices, number of the right one): the kind word is right; two to four choices."""
    rows = []
    for n in range(start, start + count):
        choices = [f"very {BAD[(n + i) % 4]} ." for i in range(2 + n % 3)]
        right = n * 7 % len(choices)
        choices[right] = f"very {GOOD[n % 4]} ."
        rows.append((f"the {NOUNS[n % 5]}", choices, right))
    return rows


def _write_table(path, rows):
    header = ("question", "a", "b", "c", "d", "right")
    write_table(path, [(p, *[*c, "", ""][:4], y) for p, c, y in rows], header)


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    _write_table(path / "train.csv", _questions(60))
    _write_table(path / "dev.csv", _questions(21, start=60))
    return path


TABLE = ("--prompt", "question", "--choices", "a", "b", "c", "d", "--label", "right")


def _arguments(home, output, *more):
    return (
        *as_flags(train=home / "train.csv", dev=home / "dev.csv"),
        *TABLE,
        *as_flags(source=home / "init", output=output),
        *QUICK,
        *as_flags(checkpoint_every=10, steps=40),
        *more,
    )


@pytest.fixture(scope="module")
def run(home):
    run_kbert("finetune", "multiple_choice", *_arguments(home, home / "run"))
    return home / "run"


@pytest.mark.usefixtures("eagerly")
def test_it_learns_and_answers_strings(run):
    metrics = read_json(run / "metrics.json")
    assert metrics["dev"]["accuracy"] == 1.0 and metrics["dev"]["examples"] == 21
    assert metrics["constant_answer"]["accuracy"] < 0.7
    pipeline = kbert.build_pipeline(kbert.load_pretrained(run))
    answers = pipeline.predict(
        {"prompt": ["the film"] * 2, "choices": [["very dull .", "very kind ."], ["fine .", "mean .", "bad ."]]}
    )
    assert answers["choice"].tolist() == [1, 0]
    assert pipeline.preprocessor.sequence_length == 12


@pytest.mark.usefixtures("eagerly")
def test_predict_and_evaluate(run, home, tmp_path, capsys):
    output = tmp_path / "answers.jsonl"
    flags = ("--output", output, "--keep", "right", "--batch-size", 4)
    run_kbert("predict", "--source", run, "--input", home / "dev.csv", *flags)
    rows = read_rows(output)
    assert [str(row["choice"]) for row in rows] == [row["right"] for row in rows]
    assert list(rows[0]) == ["question", "choices", "right", "choice", "probabilities"]
    assert sum(rows[0]["probabilities"]) == pytest.approx(1, abs=1e-5)
    scores = []
    for models, flags in (((run,), ()), ((run, run), TABLE)):
        task = ["multiple_choice"] if flags else []
        run_kbert("evaluate", *task, *models, "--examples", home / "dev.csv", *flags, "--json")
        scores.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)  # an ensemble of one model twice is that model
    assert scores[0] == pytest.approx(read_json(run / "metrics.json")["dev"], abs=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_swag_and_its_rows(home, tmp_path, capsys):
    endings = [f"ending{i}" for i in range(4)]
    header = (*"video-id fold-ind startphrase sent1 sent2 gold-source".split(), *endings, "label")
    four = [(p, [*c, "very bad .", "un dull ."][:4], y) for p, c, y in _questions(10)]
    rows = [("v", n, "s", p, "a film", "gold", *c, y) for n, (p, c, y) in enumerate(four)]
    write_table(tmp_path / "train.csv", rows, header)
    flags = ("--format", "swag", "--train", tmp_path / "train.csv", "--dev", 0.1, "--source", home / "init", *QUICK)
    run_kbert("finetune", "multiple_choice", *flags, "--steps", 1, "--output", tmp_path / "run")
    printed = capsys.readouterr()
    assert "9 examples to learn from, 1 to evaluate on" in printed.err
    answers, model = ("--output", tmp_path / "answers.jsonl", "--overwrite"), ("--source", tmp_path / "run")
    run_kbert("predict", *model, "--input", tmp_path / "train.csv", *answers)
    assert read_rows(tmp_path / "answers.jsonl")[1]["choices"][0] == f"a film {four[1][1][0]}"
    run_kbert("evaluate", tmp_path / "run", "--examples", tmp_path / "train.csv", "--json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["examples"] == 10
    table = ("--prompt", "question", "--choices", "a", "b")  # not of SWAG
    run_kbert("predict", *model, "--input", home / "dev.csv", *table, *answers)
    assert list(read_rows(tmp_path / "answers.jsonl")[0])[:2] == ["question", "choices"]
    run_kbert("evaluate", "multiple_choice", tmp_path / "run", "--examples", home / "dev.csv", *TABLE, "--json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["examples"] == 21
    wrong = r"dev.csv, line 1: .*missing: .'sent1'.* was read as 'swag'"
    for command, flags in (
        ("predict", (*model, "--input", home / "dev.csv", *answers)),
        ("evaluate", (tmp_path / "run", "--examples", home / "dev.csv")),
    ):
        with pytest.raises(SystemExit, match=wrong):
            run_kbert(command, *flags)


def test_what_is_wrong_is_said_before_anything_is_written(home, tmp_path):
    wrong_inputs(
        lambda flags: run_kbert("finetune", "multiple_choice", *_arguments(home, tmp_path / "run", *flags)),
        (("--choices", "a", "x"), "train.csv, line 1: .*missing: .'x'"),
        (("--choices", "a"), "train.csv, line 2: expected a list of strings in 'a'.*name them all"),
        error=SystemExit,
        owner="error: .*",
    )
    assert not (tmp_path / "run").exists()
