"""A difference is the paper's, a tie or the reverse by means and deviations alone."""

import pytest
from experiments.verdict import judge, sentence

LOW, HIGH, WIDE = [70.0, 71.0, 72.0], [80.0, 81.0, 82.0], [60.0, 80.0, 100.0]


@pytest.mark.parametrize(
    "values, reference, paper, word",
    [
        (HIGH, LOW, 2.1, "seen"),
        (LOW, HIGH, -0.1, "seen"),
        (HIGH, LOW, -0.4, "reversed"),
        (LOW, HIGH, 1, "reversed"),
        (HIGH, LOW, None, "higher"),
        (LOW, HIGH, None, "lower"),
        (LOW, HIGH, 0.0, "unequal"),
        (LOW, LOW, 0.0, "tie"),
        (WIDE, LOW, 5.0, "tie"),
        (LOW, LOW, 5.0, "tie"),
        ([72.0, 73.0, 74.0], LOW, 1.0, "tie"),  # two apart, and both deviations are 1
        (HIGH[:1], LOW, 2.1, "one seed"),
        (HIGH, LOW[:1], 2.1, "one seed"),
    ],
)
def test_verdicts(values, reference, paper, word):
    found = judge(values, reference, paper)
    assert found.word == word
    assert found.difference == pytest.approx(sum(values) / len(values) - sum(reference) / len(reference))
    assert (found.spread is None) == (word == "one seed")


def test_a_sentence_names_every_column():
    verdicts = {
        "MRPC": judge(HIGH, LOW, -1.0),
        "SST-2": judge(LOW, LOW, 1.0),
        "CoLA": judge(HIGH, LOW),
        "NER": judge(HIGH, LOW, 1.0),
        "RTE": judge(HIGH[:1], LOW),
        "QNLI": judge(HIGH, LOW, 0.0),
    }
    assert sentence("No NSP", "BERT", verdicts) == (
        "No NSP, against BERT: MRPC +10.0, spread 2.0: the paper's sign is reversed; SST-2 +0.0, spread 2.0: a tie; "
        "CoLA +10.0, spread 2.0: higher; the paper has no figure; NER +10.0, spread 2.0: the paper's sign is seen; "
        "RTE +9.0: one seed, no verdict; QNLI +10.0, spread 2.0: unequal; the paper's figures are the same."
    )
