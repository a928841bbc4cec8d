"""Submissions of stored models: one a task, ensembles, constants."""

import zipfile

import numpy as np
import pytest
from helpers.run_recipe import run_kbert
from helpers.tiny_bert import tiny_config
from helpers.tiny_directory import VOCABULARY
from helpers.toy_glue import TEST_ROWS, write_toy_glue
from helpers.wrong_values import wrong_inputs

import kbert
from kbert import BertTokenizer
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """glue/, two models for RTE and one for CoLA."""
    import keras

    path = tmp_path_factory.mktemp("home")
    write_toy_glue(path / "glue")
    config = tiny_config(vocabulary_size=len(VOCABULARY), num_layers=1, max_sequence_length=16, initializer_stddev=0.5)
    tokenizer = BertTokenizer(VOCABULARY)
    for seed, (name, task) in enumerate({"rte-0": "RTE", "rte-1": "RTE", "runs/CoLA": "CoLA"}.items()):
        keras.utils.set_random_seed(seed)
        labels, pair = list(GLUE_TASKS[task].labels), GLUE_TASKS[task].pair
        pipeline = kbert.build_pipeline(kbert.BertClassifier(config), tokenizer, labels=labels, pair=pair)
        kbert.save_pretrained(pipeline, path / name / "model")
    return path


def _run(home, output, *more):
    run_kbert("glue-submission", "--directory", home / "glue", "--output", output, "--batch-size", 4, *more)


def test_runs_ensembles_and_constants(home, tmp_path, capsys):
    more = ("--models", f"RTE={home / 'rte-0'}", f"RTE={home / 'rte-1'}", "--constant", "WNLI")
    _run(home, tmp_path / "s", "--runs", home / "runs", *more)
    with zipfile.ZipFile(tmp_path / "s" / "submission.zip") as archive:
        assert set(archive.namelist()) == {"CoLA.tsv", "RTE.tsv", "WNLI.tsv"}
        lines = archive.read("RTE.tsv").decode().splitlines()
    test = GLUE_TASKS["RTE"].read_test(home / "glue", "RTE")
    probabilities = [
        kbert.build_pipeline(kbert.load_pretrained(home / f"rte-{n}")).predict(test.columns, verbose=0)["probabilities"]
        for n in (0, 1)
    ]
    best = np.argmax(np.mean(probabilities, axis=0), axis=-1)
    assert lines[1:] == [f"{n}\t{GLUE_TASKS['RTE'].labels[i]}" for n, i in enumerate(best)]
    assert f"RTE.tsv: {TEST_ROWS} answers" in (printed := capsys.readouterr().out)
    assert "The server also requires SST-2, MRPC, STS-B, QQP, MNLI-m, MNLI-mm, AX, QNLI." in printed


def test_what_is_wrong_is_named(home, tmp_path):
    rte = f"{home}/rte-0"
    wrong_inputs(
        lambda more: _run(home, tmp_path / "s", *more),
        (("--models", f"CoLA={rte}"), r"expected a model for CoLA, .*Received: classification with labels .'entail"),
        (("--models", f"RTE={rte}", "--constant", "RTE"), r"Received: both for \['RTE'\]"),
        (("--runs", f"{home}/glue"), "folders of tasks with a model/ in them"),
        (("--models", f"RTE={rte}", "--directory", f"{home}/runs"), "RTE/test.tsv"),
        ((), "expected `runs`, `models` or `constant`"),
        (("--models", "a"), "expected TASK=SOURCE"),
        error=SystemExit,
        owner="error: .*",
    )
    assert not (tmp_path / "s" / "submission.zip").exists()
