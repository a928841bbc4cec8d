"""Submissions to GLUE's server: every test file, ensembles, constants, and what is missing."""

import zipfile

import keras
import numpy as np
import pytest
from glue_submission import FILES, read_texts
from helpers.run_recipe import as_flags, run_recipe
from helpers.tiny_bert import tiny_config
from helpers.tiny_directory import VOCABULARY
from helpers.toy_glue import TEST_ROWS, write_toy_glue
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """glue/, and in runs/ a toy model for each task; rte/ has a second model for RTE, with turned labels."""
    path = tmp_path_factory.mktemp("home")
    write_toy_glue(path / "glue")
    config = tiny_config(vocabulary_size=len(VOCABULARY), num_layers=1, max_sequence_length=16, initializer_stddev=0.5)
    for seed, (folder, task) in enumerate([*(("runs", task) for task in GLUE_TASKS.values()), ("", GLUE_TASKS["RTE"])]):
        keras.utils.set_random_seed(seed)
        labels = task.labels if folder else task.labels[::-1]
        model = kbert.BertRegressor(config) if task.regression else kbert.BertClassifier(config, len(labels))
        pipeline = kbert.build_pipeline(model, kbert.BertTokenizer(VOCABULARY), labels=labels, pair=task.pair)
        kbert.save_pretrained(pipeline, path / folder / task.name / "model")
    return path


def submit(home, output, *more):
    return run_recipe("glue_submission", *as_flags(directory=home / "glue", output=output, batch_size=4), *more)


def test_every_task_over_every_layout(home, tmp_path, capsys):
    assert set(submit(home, tmp_path / "s", "--runs", home / "runs")) == set(FILES)
    assert "The server also requires" not in capsys.readouterr().out
    with zipfile.ZipFile(tmp_path / "s" / "submission.zip") as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(files) == {f"{file}.tsv" for file in FILES}
    for file, (name, paths) in FILES.items():
        assert (tmp_path / "s" / f"{file}.tsv").read_text() == files[f"{file}.tsv"]
        header, *lines = [line.split("\t") for line in files[f"{file}.tsv"].splitlines()]
        assert header == ["index", "prediction"]
        assert [line[0] for line in lines] == [str(n) for n in range(TEST_ROWS + (file == "QQP"))]
        _, columns = read_texts(home / "glue", paths, kbert.tasks.glue(name))
        assert columns["text"][0] == "the good film ." and ("text_pair" in columns) == GLUE_TASKS[name].pair
        if file == "QQP":  # the server wants an answer to a row without its second question
            assert (columns["text"][-1], columns["text_pair"][-1]) == ("cut", "")
        answers = kbert.build_pipeline(kbert.load_pretrained(home / "runs" / name)).predict(columns, verbose=0)
        if name == "STS-B":
            assert [float(line[1]) for line in lines] == pytest.approx(np.clip(answers["score"], 0, 5), abs=6e-4)
        else:
            assert [line[1] for line in lines] == answers["label"].tolist()


def test_ensembles_and_constants(home, tmp_path, capsys):
    models = [home / "runs" / "RTE" / "model", home / "RTE" / "model"]
    more = ("--models", *(f"rte={path}" for path in models), "--constant", "WNLI", "sts-b")
    assert submit(home, tmp_path / "s", *more) == ["RTE", "WNLI", "STS-B"]
    assert "The server also requires CoLA, SST-2, MRPC, QQP, MNLI-m, MNLI-mm, QNLI, AX." in capsys.readouterr().out
    _, columns = read_texts(home / "glue", ["RTE/test.tsv"], kbert.tasks.glue("RTE"))
    pipelines = [kbert.build_pipeline(kbert.load_pretrained(path)) for path in models]
    one, other = (pipeline.predict(columns, verbose=0)["probabilities"] for pipeline in pipelines)
    best = np.argmax(one + other[:, ::-1], axis=-1)
    lines = (tmp_path / "s" / "RTE.tsv").read_text().splitlines()
    assert lines[1:] == [f"{n}\t{('entailment', 'not_entailment')[label]}" for n, label in enumerate(best)]
    assert (tmp_path / "s" / "WNLI.tsv").read_text().splitlines()[1:] == [f"{n}\t1" for n in range(TEST_ROWS)]
    assert (tmp_path / "s" / "STS-B.tsv").read_text().splitlines()[3] == "2\t3.000"  # two of three are good: 4.5


@pytest.mark.parametrize("name, rows", [("CoLA", 1063), ("SST-2", 1821), ("STS-B", 1379)])
def test_the_real_test_files(shared_data, name, rows):
    index, columns = read_texts(shared_data / "glue", FILES[name][1], kbert.tasks.glue(name))
    assert index == [str(n) for n in range(rows)]
    assert len(columns["text"]) == rows and ("text_pair" in columns) == (name == "STS-B")


def test_what_is_wrong_is_named(home, tmp_path):
    rte = home / "RTE" / "model"
    wrong_inputs(
        lambda more: submit(home, tmp_path / "s", *more),
        (
            ("--models", f"CoLA={rte}"),
            r"expected a model for CoLA, classification with .*Received: classification with",
        ),
        (("--models", f"RTE={rte}", "--constant", "RTE"), r"Received: both for \['RTE'\]"),
        (("--runs", home / "glue"), "folders of tasks. Received: --runs .*glue"),
        (("--models", f"RTE={rte}", "--directory", home / "runs"), "expected RTE/test.tsv, the test texts of RTE"),
        ((), "Expected --models, --constant or --runs"),
        (("--models", "a"), "glue: expected one of"),
        error=SystemExit,
        owner="error: .*",
    )
    assert not (tmp_path / "s").exists()
    (tmp_path / "s").mkdir()
    with pytest.raises(SystemExit, match="s already exists"):
        submit(home, tmp_path / "s", "--constant", "WNLI")
