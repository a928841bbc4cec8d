"""Submission files: label strings, clipped scores, constants, and what is missing."""

import zipfile

import keras
import numpy as np
import pytest
from helpers.tiny_bert import tiny_config
from helpers.tiny_directory import VOCABULARY
from helpers.toy_glue import TEST_ROWS, write_toy_glue

import kbert
from kbert.tasks.glue_benchmark.submission import (
    answer_tests,
    check_pipeline,
    constant_answers,
    predictions,
    write_submission,
)
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, SUBMISSION_FILES


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return write_toy_glue(tmp_path_factory.mktemp("glue"))


@pytest.fixture(scope="module")
def pipelines():
    """A toy model for each kind of task: (labels, whether it reads pairs) → pipeline."""
    config = tiny_config(vocabulary_size=len(VOCABULARY), num_layers=1, max_sequence_length=16, initializer_stddev=0.5)
    made, tokenizer = {}, kbert.BertTokenizer(VOCABULARY)
    for task in GLUE_TASKS.values():
        if (task.labels, task.pair) not in made:
            keras.utils.set_random_seed(len(made))
            model = kbert.BertRegressor(config) if task.regression else kbert.BertClassifier(config, len(task.labels))
            made[task.labels, task.pair] = kbert.build_pipeline(model, tokenizer, labels=task.labels, pair=task.pair)
    return made


@pytest.mark.usefixtures("eagerly")
def test_a_whole_submission_of_toy_models_over_every_layout(toy, pipelines, tmp_path):
    answers = {}
    for task in GLUE_TASKS.values():
        answers |= answer_tests([pipelines[task.labels, task.pair]], task, toy, batch_size=8)
    path, missing = write_submission(tmp_path, answers)
    assert missing == []
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(files) == {f"{file}.tsv" for file in SUBMISSION_FILES}
    for file, task in SUBMISSION_FILES.items():
        assert (tmp_path / f"{file}.tsv").read_text() == files[f"{file}.tsv"]
        header, *lines = [line.split("\t") for line in files[f"{file}.tsv"].splitlines()]
        assert header == ["index", "prediction"]
        assert [line[0] for line in lines] == [str(n) for n in range(TEST_ROWS + (file == "QQP"))]
        test, pipeline = task.read_test(toy, file), pipelines[task.labels, task.pair]
        columns = test.columns
        outputs = pipeline.model(pipeline.preprocessor(columns))
        if task.regression:
            expected = np.clip(outputs["score"], 0, 5)
            assert [float(line[1]) for line in lines] == pytest.approx(expected, abs=6e-4)
        else:
            assert [line[1] for line in lines] == [task.labels[i] for i in np.argmax(outputs["logits"], axis=-1)]


@pytest.mark.usefixtures("eagerly")
def test_a_head_in_another_order_answers_the_same(toy, pipelines):
    task = GLUE_TASKS["MNLI"]
    pipeline = pipelines[task.labels, task.pair]
    model = kbert.BertClassifier(pipeline.model.encoder, 3)
    model.set_weights([w[..., ::-1] if w.shape[-1] == 3 else w for w in pipeline.model.get_weights()])
    turned = kbert.build_pipeline(model, pipeline.tokenizer, labels=task.labels[::-1], pair=True)
    check_pipeline("turned", turned, task)
    assert answer_tests([turned], task, toy) == answer_tests([pipeline], task, toy)
    assert answer_tests([turned, pipeline], task, toy) == answer_tests([pipeline], task, toy)
    with pytest.raises(ValueError, match="other: expected a model for MNLI, classification with labels"):
        check_pipeline("other", kbert.build_pipeline(model, pipeline.tokenizer, labels=list("abc"), pair=True), task)


def test_scores_become_the_strings_of_the_server():
    scores = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    assert predictions(GLUE_TASKS["MNLI"], scores) == ["entailment", "contradiction"]
    assert predictions(GLUE_TASKS["QNLI"], scores[:, :2]) == ["not_entailment", "entailment"]
    assert predictions(GLUE_TASKS["CoLA"], scores[:, :2]) == ["1", "0"]
    assert predictions(GLUE_TASKS["STS-B"], np.array([-0.3, 2.34567, 5.4])) == ["0.000", "2.346", "5.000"]


def test_constant_answers(toy):
    labels = [1] * 40 + [0] * 20
    assert constant_answers(GLUE_TASKS["WNLI"], toy) == {"WNLI": [f"{n}\t1" for n in range(TEST_ROWS)]}
    assert set(constant_answers(GLUE_TASKS["MNLI"], toy)) == {"MNLI-m", "MNLI-mm", "AX"}
    mean = 4.5 * np.mean(labels)
    assert constant_answers(GLUE_TASKS["STS-B"], toy)["STS-B"][2] == f"2\t{mean:.3f}"


def test_the_zip_is_the_same_each_time_and_says_what_is_missing(toy, tmp_path):
    answers = constant_answers(GLUE_TASKS["RTE"], toy) | constant_answers(GLUE_TASKS["MNLI"], toy)
    path, missing = write_submission(tmp_path / "a", answers)
    again, _ = write_submission(tmp_path / "b", answers)
    assert path.read_bytes() == again.read_bytes()
    assert set(missing) == set(SUBMISSION_FILES) - {"RTE", "MNLI-m", "MNLI-mm", "AX"}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("RTE.tsv").decode().splitlines()[:2] == ["index\tprediction", "0\tentailment"]
    with pytest.raises(ValueError, match=r"Received: \['SNLI'\]"):
        write_submission(tmp_path / "a", {"SNLI": []})
