"""Entity scores, against a transcription of conlleval."""

import random

import pytest
from helpers.conlleval import conlleval
from helpers.wrong_values import wrong_inputs

from kbert.tasks.tagging.tag_scheme import entity_chunks, entity_scores

TAGS = ("O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def expected_scores(gold, predicted):
    right, there, found, right_tags, all_tags = conlleval(gold, predicted)

    def of(r, t, f):
        precision, recall = (r / f if f else 0.0), (r / t if t else 0.0)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        return {"precision": precision, "recall": recall, "f1": f1, "entities": t, "predicted_entities": f}

    types = {name: of(right[name], there[name], found[name]) for name in sorted(there | found)}
    total = of(right.total(), there.total(), found.total())
    return {**total, "accuracy": right_tags / all_tags, "types": types}


def random_case(draw, tags):
    lengths = [draw.randint(1, 9) for _ in range(draw.randint(1, 7))]
    gold = [[draw.choice(tags) for _ in range(n)] for n in lengths]
    predicted = [[tag if draw.random() < 0.7 else draw.choice(tags) for tag in tags_] for tags_ in gold]
    return gold, predicted


@pytest.mark.parametrize(
    "tags",
    [TAGS, (*TAGS, "E-PER", "E-LOC"), ("O", "B", "I", "I-PER"), ("I-A", "B-A"), ("O", "B-A-B", "I-A-B", "I-A"), ("O",)],
)
def test_random_sequences_that_keep_no_scheme(tags):
    draw = random.Random(len(tags))
    seen = 0
    for _ in range(300):
        gold, predicted = random_case(draw, tags)
        scores = entity_scores(gold, predicted)
        assert scores == expected_scores(gold, predicted)
        seen += 0 < scores["f1"] < 1
    assert seen > 50 or tags == ("O",)


def test_hand_made_figures():
    gold = ["B-PER I-PER O B-LOC O B-ORG".split()]
    predicted = ["B-PER I-PER O B-ORG O B-ORG".split()]
    scores = entity_scores(gold, predicted)
    assert (scores["precision"], scores["recall"], scores["f1"]) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert scores["accuracy"] == 5 / 6
    assert scores["types"]["ORG"]["precision"] == 0.5 and scores["types"]["ORG"]["recall"] == 1.0
    assert scores["types"]["LOC"] == {"precision": 0, "recall": 0, "f1": 0, "entities": 1, "predicted_entities": 0}


def test_chunks():
    assert entity_chunks("I-PER I-PER B-PER O I-LOC I-PER".split()) == [
        (0, 2, "PER"),
        (2, 3, "PER"),
        (4, 5, "LOC"),
        (5, 6, "PER"),
    ]
    assert entity_chunks([]) == []


def test_errors():
    wrong_inputs(
        lambda tags: entity_scores(*tags),
        (([["O"]], [["O", "O"]]), "argument 2 is longer"),
        (([["O"]], []), "argument 2 is shorter"),
        (([[]], [[]]), "at least one word"),
        (([["S-PER"]], [["O"]]), "prefixes B, I, E and O. Received: 'S-PER'"),
    )
