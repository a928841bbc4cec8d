"""Students that learn from a teacher's answers: each task, texts without labels, resuming, and what is refused."""

import contextlib
import shutil

import numpy as np
import pytest
from helpers.at_step import Killed, killed_at
from helpers.run_eagerly import run_eagerly
from helpers.slow_but import slow_but
from helpers.tiny_directory import NOUNS, VOCABULARY, write_table, write_tiny_directory
from helpers.tiny_finetuning import DEV, NO_DEV, ROWS, TASK, same, start

import kbert
from kbert.errors import UnreadableInput
from kbert.finetuning.teacher import ANSWERS, Teacher
from kbert.options import Distillation
from kbert.training import open_run

TAGGED = {
    "words": [text.split() for text, _ in ROWS],
    "tags": [["O", "B-X" if label == "good" else "O", "O", "O"] for _, label in ROWS],
}
ASKED = [
    {"question": f"the {NOUNS[n % 5]}", "context": text, "answers": {"text": [text.split()[1]], "answer_start": [4]}}
    for n, (text, _) in enumerate(ROWS)
]
NUMBERS = [(text, 1.0 if label == "good" else -1.0) for text, label in ROWS]
SETS = [(text, label if n % 2 else f"{label}|odd") for n, (text, label) in enumerate(ROWS)]
PAIRS = [(text, f"a {label}", label) for text, label in ROWS]
TASKS = {
    "classification": (TASK, ROWS, {"sequence_length": 9}),
    "multi_label": (kbert.tasks.Classification(label_separator="|"), SETS, {"sequence_length": 9}),
    "pairs": (kbert.tasks.Classification(text_pair="pair"), PAIRS, {"sequence_length": 12}),
    "windows": (kbert.tasks.Classification(window_pooling="mean", doc_stride=2), ROWS, {"sequence_length": 5}),
    "regression": (kbert.tasks.Regression(), NUMBERS, {"sequence_length": 9}),
    "tagging": (kbert.tasks.Tagging(), TAGGED, {"sequence_length": 7}),
    "span": (kbert.tasks.SpanExtraction(doc_stride=3, max_query_length=3), ASKED, {"sequence_length": 11}),
}
MORE = {
    "pairs": {"text": ["the good tale .", "the bad", "the dull"], "pair": ["a good", "a bad tale", "a bad"]},
    "span": [("the book", "the good book ."), ("the song", "the dull song .")],
    "tagging": ["the good tale .", "the bad tale"],
}


@pytest.fixture(scope="module")
def init(tmp_path_factory):
    return write_tiny_directory(tmp_path_factory.mktemp("init"))


@pytest.fixture(scope="module")
def teacher(init):
    with run_eagerly():
        return kbert.finetune(init, TASK, ROWS, **NO_DEV).pipeline


def distances(student, teacher, columns):
    """The mean distance of all answers that are numbers."""
    one, other = (pipeline.predict(columns, verbose=0) for pipeline in (student, teacher))
    names = [name for name in one if name in ("probabilities", "score", "scores", "null_score")]
    return np.mean([np.abs(one[name] - other[name]).mean() for name in names])


@pytest.mark.parametrize("kind", slow_but(("classification", "tagging", "span"), TASKS))  # the others: as these
@pytest.mark.usefixtures("eagerly")
def test_targets_are_the_labels_and_the_answers_to_the_same_rows(init, kind):
    task, rows, length = TASKS[kind]
    rows = {name: column[:12] for name, column in rows.items()} if kind == "tagging" else rows[:12]
    teacher = start(init, task, rows, **length).pipeline
    more = MORE.get(kind, [text for text, _ in DEV])
    work = start(init, task, rows, **length)
    taught = Teacher(teacher, work.task, work.pipeline, work.train, more, Distillation(), batch_size=4)
    targets = {"teacher": taught.answers(open_run(None, {})), "group_by_length": True}
    data = work.task.training_data(work.pipeline, taught.examples, batch_size=4, seed=0, padding="longest", **targets)
    seen = {True: 0, False: 0}  # the teacher is the student, so its answers are the outputs
    for inputs, targets, *weights in data.make_dataset().take(2 * (12 + len(more)) // 4):
        outputs = work.pipeline.model(inputs)
        for name, target in targets.items():
            target, output = target.numpy(), outputs[name].numpy()
            output = output[..., None] if name == "score" else output
            answers = target[..., -output.shape[-1] :] if kind != "span" else target[:, 2 : 2 + output.shape[-1]]
            is_shown = np.ones(answers.shape[:1], bool) if not weights else weights[0][name].numpy() > 0
            if kind == "span":
                is_shown = inputs["padding_mask"].numpy()
            if kind == "windows":  # answers are those to the whole text
                assert np.isfinite(answers).all()
            else:
                if kind in ("classification", "pairs"):  # up to a number that the logits of a row share
                    answers, output = answers - answers[..., :1], output - output[..., :1]
                if kind == "tagging":  # a word of two windows has the answer of the one with more context
                    assert np.mean(np.isclose(answers[is_shown], output[is_shown], atol=1e-4)) > 0.5
                else:
                    np.testing.assert_allclose(answers[is_shown], output[is_shown], atol=1e-4)
            first = target[..., 0][is_shown] if kind == "tagging" else target[..., 0]
            seen[True] += np.isfinite(first).sum()
            seen[False] += np.isnan(first).sum()
    assert all(seen.values())


@pytest.mark.slow  # stored answers: test_from_files_in_parts_and_by_the_command; resuming: test_finetune.py
@pytest.mark.usefixtures("eagerly")
def test_a_run_that_stopped_is_resumed_to_the_same_weights_and_asks_its_teacher_once(
    init, teacher, tmp_path, monkeypatch
):
    options = NO_DEV | {
        "teacher": teacher,
        "unlabelled": [text for text, _ in DEV],
        "distillation": Distillation(teacher_temperature=3.0, hard_fraction=0.0),
    }
    options |= {"dropout": 0.0, "steps": 3, "checkpoint_every": 1}
    whole = kbert.finetune(init, TASK, ROWS, None, tmp_path / "whole", **options)
    stopping = {"callbacks": [killed_at(2)]}
    with pytest.raises(Killed):
        kbert.finetune(init, TASK, ROWS, None, tmp_path / "run", **options | stopping)
    shutil.copytree(tmp_path / "run", tmp_path / "without")
    answers = np.load(tmp_path / "run" / ANSWERS)["logits"]
    assert answers.shape == (len(ROWS) + len(DEV), 2)

    answer = kbert.tasks.Classification.teacher_answers

    def once(task, teacher, pipeline, examples, batch_size):
        assert len(examples) == 1, "the answers are there"
        return answer(task, teacher, pipeline, examples, batch_size)

    monkeypatch.setattr(kbert.tasks.Classification, "teacher_answers", once)
    resumed = kbert.finetune(init, TASK, ROWS, None, tmp_path / "run", **options)
    assert (whole.metrics["unlabelled_examples"], whole.metrics["train_examples"]) == (len(DEV), len(ROWS))
    assert same(whole.pipeline.model.get_weights(), resumed.pipeline.model.get_weights())
    losses = resumed.pipeline.model.loss
    assert {name: loss.get_config()["temperature"] for name, loss in losses.items()} == {"logits": 3.0}
    (tmp_path / "without" / ANSWERS).unlink()
    monkeypatch.undo()
    kbert.finetune(init, TASK, ROWS, None, tmp_path / "without", **options)
    np.testing.assert_array_equal(np.load(tmp_path / "without" / ANSWERS)["logits"], answers)
    columns = TASK.read(ROWS).columns
    untrained = start(init, TASK, ROWS).pipeline
    assert distances(whole.pipeline, teacher, columns) < distances(untrained, teacher, columns)
    with pytest.raises(FileExistsError, match="with other settings .teacher"):
        kbert.finetune(init, TASK, ROWS, None, tmp_path / "run", **options | {"teacher": whole.pipeline})


@pytest.mark.usefixtures("eagerly")
def test_a_teacher_answers_once_the_output_is_open(init, teacher, tmp_path, monkeypatch):
    numbers, answer = [], kbert.tasks.Classification.teacher_answers

    def count(task, teacher, pipeline, examples, batch_size):
        numbers.append(len(examples))
        return answer(task, teacher, pipeline, examples, batch_size)

    monkeypatch.setattr(kbert.tasks.Classification, "teacher_answers", count)
    (tmp_path / "kept.txt").write_text("other files")
    with pytest.raises(FileExistsError, match="holds other files than a run's"):
        kbert.finetune(init, TASK, ROWS, None, tmp_path, teacher=teacher, **NO_DEV)
    assert numbers == [1]  # whether it can teach
    (tmp_path / "kept.txt").unlink()
    with pytest.raises(Killed):
        kbert.finetune(init, TASK, ROWS, None, tmp_path, teacher=teacher, **NO_DEV, callbacks=killed_at(1))
    assert numbers == [1, 1, len(ROWS)] and len(np.load(tmp_path / ANSWERS)["logits"]) == len(ROWS)
    stored = (tmp_path / ANSWERS).read_bytes()
    for damaged in (b"", stored[: len(stored) // 2], stored.replace(b"NUMPY", b"NUMPA")):
        (tmp_path / ANSWERS).write_bytes(damaged)
        with pytest.raises(UnreadableInput, match="teacher.npz: the teacher's stored answers are damaged.* Delete the"):
            kbert.finetune(init, TASK, ROWS, None, tmp_path, teacher=teacher, **NO_DEV)


@pytest.mark.parametrize("repeats", slow_but([False], [False, True]))  # True: traced, too
def test_from_files_in_parts_and_by_the_command(init, teacher, tmp_path, capsys, repeats):
    from helpers.run_recipe import as_flags, read_json, run_kbert

    kbert.save_pretrained(teacher, tmp_path / "teacher")
    table = write_table(tmp_path / "train.csv", ROWS)
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{text}\n" for text, _ in DEV))
    flags = as_flags(source=init, train=table, dev=0.2, teacher=tmp_path / "teacher", unlabelled=texts)
    flags += as_flags(steps=1, batch_size=4, accumulate=2, sequence_length=9, teacher_temperature=3, hard_fraction=0.2)
    with contextlib.nullcontext() if repeats else run_eagerly():
        run_kbert("finetune", "classification", *flags, "--output", tmp_path / "run")
    said = capsys.readouterr().err
    assert "the teacher answers 33 examples" in said and "9 texts without labels" in said
    settings = read_json(tmp_path / "run" / "settings.json")
    taught = {"teacher": str(tmp_path / "teacher"), "unlabelled": str(texts)}
    assert settings.items() >= (taught | {"teacher_temperature": 3.0, "hard_fraction": 0.2, "accumulate": 2}).items()
    inputs = read_json(tmp_path / "run" / "inputs.json")
    assert {"source", "train", "teacher", "unlabelled"} <= inputs["inputs"].keys()
    if repeats:
        assert kbert.evaluate(tmp_path / "run", TASK, table)["examples"] == len(ROWS)
        run_kbert("finetune", "--config", tmp_path / "run" / "settings.json", "--output", tmp_path / "again")
        assert read_json(tmp_path / "again" / "settings.json") == settings
        estimate = kbert.finetune(init, TASK, table, teacher=tmp_path / "teacher", dry_run=True, **NO_DEV).metrics
        assert estimate["examples"] == len(ROWS)


def test_what_is_refused(init, teacher, tmp_path):
    def refuse(message, task=TASK, rows=ROWS, **options):
        with pytest.raises(ValueError, match=message):
            kbert.finetune(init, task, rows, None, tmp_path / "run", **NO_DEV | options)
        assert not (tmp_path / "run").exists()

    texts = [text for text, _ in DEV]
    refuse("`unlabelled` needs `teacher`", unlabelled=texts)
    refuse(
        "`unlabelled` needs `teacher`, and no `class_weight`",
        teacher=teacher,
        unlabelled=texts,
        class_weight="balanced",
    )
    refuse(
        "^finetune: `teacher`: expected a regression model. Received: a classification model",
        kbert.tasks.Regression(),
        NUMBERS,
        teacher=teacher,
    )
    others = [(text, f"very {label}") for text, label in ROWS]
    refuse("`teacher`: expected a model with the labels.*very bad", rows=others, teacher=teacher)
    pairs = [(text, text, label) for text, label in ROWS]
    refuse(
        "^finetune: `teacher`: this model was trained on single texts",
        kbert.tasks.Classification(text_pair="b"),
        pairs,
        teacher=teacher,
    )
    refuse(
        r"`distillation` must be a Distillation. Received: \{\'hard_fraction\': 2\}", distillation={"hard_fraction": 2}
    )
    with pytest.raises(ValueError, match=r"`hard_fraction` must be a number in \[0, 1\]"):
        Distillation(hard_fraction=2)
    similarity, same_texts = kbert.tasks.Similarity(text_pair="b"), [(text, text) for text in texts]
    for_texts = start(init, similarity, same_texts).pipeline
    refuse("`teacher` is for classification, regression", similarity, same_texts, teacher=for_texts)
    task, rows, length = TASKS["span"]
    tokenizer = kbert.BertTokenizer([*VOCABULARY[:-1], "other"])
    model = kbert.BertSpanExtractor(kbert.load_pretrained(init, "encoder").config)
    other = kbert.build_pipeline(model, tokenizer, sequence_length=11, doc_stride=3)
    refuse("expected the vocabulary of the trained model", task, rows, teacher=other, **length)
