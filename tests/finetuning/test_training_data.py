"""Every task's training data: a run taken up at a step sees the batches that it would have seen."""

import functools
import itertools

import numpy as np
import pytest
from helpers.tiny_directory import sentences
from helpers.tiny_finetuning import start
from helpers.toy_tags import tagged_sentences

import kbert

ROWS = sentences(13)
WORDS = [word for word, _ in tagged_sentences(11)], [tags for _, tags in tagged_sentences(11)]
CHOICES = [(f"the film {n}", ["very good .", "very bad .", "a play"][: 2 + n % 2], n % 2) for n in range(11)]
QUESTIONS = [("the film", f"a good film . a bad book . {'the very . ' * n}", "good" if n % 3 else "") for n in range(9)]
TASKS = {
    "classification": (kbert.tasks.Classification(), ROWS, 9),
    "windows": (kbert.tasks.Classification(window_pooling="max", doc_stride=2), ROWS, 6),
    "regression": (kbert.tasks.Regression(), [(text, len(text)) for text, _ in ROWS], 9),
    "tagging": (kbert.tasks.Tagging(), {"words": WORDS[0], "tags": WORDS[1]}, 16),
    "multiple_choice": (kbert.tasks.MultipleChoice(), CHOICES, 12),
    "span": (kbert.tasks.SpanExtraction(doc_stride=5, max_query_length=3), QUESTIONS, 16),
}


@pytest.fixture(scope="module")
def prepared(init):
    """Function from a key of TASKS to what a run of that task starts from."""

    def of_task(name):
        task, rows, length = TASKS[name]
        return start(init, task, rows, sequence_length=length, seed=3)

    return functools.cache(of_task)


GROUPED = ("classification", "span")  # texts, and windows; the others are slow


@pytest.mark.parametrize(
    "name, by_length",
    [
        *((name, False) for name in TASKS),
        *(pytest.param(name, True, marks=() if name in GROUPED else pytest.mark.slow) for name in TASKS),
    ],
)
def test_batches_from_a_step_on_are_those_of_the_whole_run(prepared, name, by_length):
    work, length = prepared(name), TASKS[name][2]
    data = work.task.training_data(
        work.pipeline, work.train, batch_size=4, seed=3, padding="longest", group_by_length=by_length
    )
    assert data.examples <= data.windows and 2 < data.real_tokens <= length * (3 if name == "multiple_choice" else 1)
    inputs, labels, *weights = data.make_dataset().element_spec
    sizes = {spec.shape[0] for part in (inputs, labels, *weights) for spec in part.values()}
    assert sizes == {4}  # known, so that a step can divide a batch
    whole = list(itertools.islice(data.make_dataset().as_numpy_iterator(), 9))
    part = list(itertools.islice(data.make_dataset(start_step=5).as_numpy_iterator(), 4))
    flat = [_flat(batch) for batch in whole]
    assert any(not np.array_equal(flat[0]["0/token_ids"], one["0/token_ids"]) for one in flat[1:])
    for one, other in zip(flat[5:], map(_flat, part), strict=True):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


@pytest.mark.parametrize("name", TASKS)
def test_examples_have_the_same_verbs(name):
    task, rows, _ = TASKS[name]
    examples = task.examples(rows)
    train, dev = examples.split(0.2, seed=1)
    again = examples.split(0.2, seed=1)
    assert len(train) + len(dev) == len(examples) and len(dev) == max(1, round(0.2 * len(examples)))
    assert [one.fingerprint() for one in again] == [train.fingerprint(), dev.fingerprint()]
    assert examples.split(np.float32(0.2), seed=1)[1].fingerprint() == dev.fingerprint()
    assert examples.split(0.2, seed=2)[1].fingerprint() != dev.fingerprint()
    counts = {len(column) for column in train.columns.values()}
    assert counts == {len(train)} and len(examples.take([2, 0])) == 2
    completed, learnt = task.for_training(train)
    scores = completed.baseline_scores(learnt.baseline(), dev)
    assert set(scores) == set(task.metrics) and all(np.isfinite(value) for value in scores.values())
    with pytest.raises(ValueError, match="expected to hold out 1 to"):
        examples.split(len(examples))


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.usefixtures("eagerly")
def test_a_model_with_damaged_weights_is_not_scored(prepared, name):
    work = prepared(name)
    for weight in work.pipeline.model.weights:
        weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(FloatingPointError, match="finite scores.*row 0"):
        work.task.evaluate(work.pipeline, work.train)


def _flat(batch):
    return {f"{n}/{name}": value for n, part in enumerate(batch) for name, value in part.items()}
