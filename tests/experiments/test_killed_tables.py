"""Tables by their command, killed within each kind of training, give the scores of a run that was not killed."""

import os
import signal
import subprocess
import sys
import time

import pytest
from experiments.paper_tables import TABLES
from helpers.paths import ROOT
from helpers.run_recipe import RECIPES, as_flags, read_json, run_recipe
from helpers.toy_study import QUICK, study_arguments, write_study_home, write_toy_squad

pytestmark = pytest.mark.slow  # minutes
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
# The program, killed after a step of a training that only this module starts: the numbers say which.
KILLED = """
import importlib, os, signal, sys
import keras
from kbert.cli import execute

module, training, step = importlib.import_module(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
count, fit_steps = 0, module.fit_steps


class Kill(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if count == training and int(self.model.optimizer.iterations) == step:
            os.kill(os.getpid(), signal.SIGKILL)


def fit(*args, callbacks=(), **options):
    global count
    count += 1
    return fit_steps(*args, callbacks=[*callbacks, Kill()], **options)


module.fit_steps = fit
sys.path.insert(0, sys.argv[4])
execute(importlib.import_module("ablations").COMMAND, sys.argv[5:], "ablations")
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_study_home(tmp_path_factory.mktemp("home"))


def run_alone(*arguments):
    """The exit status and output of Python with these arguments."""
    command = [str(part) for part in (sys.executable, *arguments)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def of_table_7(home, output):
    """Arguments: a pre-training of 10 steps, a fine-tuning of 3 (4 documents, 8 a batch) and taggers of 120 (32)."""
    steps = as_flags(steps=10, epochs=6, feature_epochs=320, feature_units=4)
    given = as_flags(table="table7", ner=home / "ner", output=output)
    return (home / "records", *given, *QUICK, *steps)


@pytest.fixture(scope="module")
def uninterrupted(home, tmp_path_factory):
    """Scores of a table that was made at once."""
    output = tmp_path_factory.mktemp("once")
    status, printed = run_alone(RECIPES / "ablations.py", *of_table_7(home, output))
    assert status == 0, printed
    return scores(output)


def scores(output):
    """What the models of a table scored; minutes and dates differ."""
    rows = read_json(output / "results" / "table7.json")["rows"]
    for row in rows:
        row["pretrained"].pop("minutes", None)
    return {row["name"]: (row["scores"], row["pretrained"]) for row in rows}


@pytest.mark.parametrize(
    "module, training, step",
    [
        ("kbert.pretraining.run.run_pretraining", 1, 5),  # after the checkpoint of step 4
        ("kbert.finetuning.run_finetuning", 1, 2),
        ("kbert.finetuning.features.train", 3, 110),  # after that of step 100
    ],
    ids=["pre-training", "fine-tuning", "tagger on features"],
)
def test_a_killed_table_has_the_scores_of_one_made_at_once(home, tmp_path, uninterrupted, module, training, step):
    given = of_table_7(home, tmp_path)
    status, printed = run_alone("-c", KILLED, module, training, step, RECIPES, *given)
    assert status == -signal.SIGKILL, printed
    assert not (tmp_path / "results").exists()
    status, printed = run_alone(RECIPES / "ablations.py", *given)
    assert status == 0, printed
    assert ("resuming from the checkpoint of step" in printed) == (module != "kbert.finetuning.run_finetuning")
    assert scores(tmp_path) == uninterrupted


@pytest.mark.usefixtures("eagerly")
def test_names_and_questions_by_the_clock(home, tmp_path):
    """The row of names, the column of SQuAD, and pre-trainings of --hours."""
    (tmp_path / "names.txt").write_text("good film\nbad film\n")
    files = as_flags(names=tmp_path / "names.txt", squad=write_toy_squad(tmp_path / "squad"), output=tmp_path / "runs")
    run_recipe("ablations", home / "records", *as_flags(table="masking", hours=1e-4), *files, *QUICK)
    result = read_json(tmp_path / "runs" / "results" / "masking.json")
    names = [row["name"] for row in result["rows"]]
    assert (names[:2], names[-1], len(names)) == (["BERT", "names"], "most frequent answer", 8)
    assert result["columns"] == ["SQuAD"] and result["settings"]["examples"]["SQuAD"] == {"train": 8, "dev": 4}
    for row in result["rows"]:
        assert 0 <= row["scores"]["SQuAD"]["mean"] <= 100
    assert all(row["pretrained"]["steps"] > 0 for row in result["rows"][:-1])


def test_every_table_killed_and_resumed(home, tmp_path):
    more = as_flags(held_out=0.2, ner=home / "ner", feature_units=4, feature_epochs=1, sizes=["tiny", "mini"], seeds=0)
    given = study_arguments(home, tmp_path, "all", *more, of_text=True)
    command = [str(part) for part in (sys.executable, RECIPES / "ablations.py", *given)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "results" / "table5.json").exists():
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "results" / "positions.json").exists()
    status, printed = run_alone(*command[1:])
    assert status == 0, printed
    assert {path.stem for path in (tmp_path / "results").iterdir()} == set(TABLES)
    made = [path.name for path in (tmp_path / "pretraining").iterdir()]
    assert len(made) == 3 + 1 + 5 + 5 + 2 + 1  # table 5, mini, table 8, masking, next-sentence, positions
    for table in TABLES:
        result = read_json(tmp_path / "results" / f"{table}.json")
        assert all(row["scores"] for row in result["rows"])
