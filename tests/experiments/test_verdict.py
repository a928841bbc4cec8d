"""A difference is the paper's, a tie or the reverse by means and deviations alone."""

import pytest
from experiments.report import accuracy_without_context, is_trained, judge, judge_row, sentence

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
        "No NSP against BERT. Opposite direction to the paper: MRPC +10.0 ± 2.0. Tie: SST-2 +0.0 ± 2.0. Higher, no "
        "figure in the paper: CoLA +10.0 ± 2.0. Same direction as in the paper: NER +10.0 ± 2.0. One seed, no verdict: "
        "RTE +9.0. Unequal, although the paper's figures are equal: QNLI +10.0 ± 2.0."
    )


@pytest.mark.parametrize(
    "rates, least, accuracy, trained",  # of runs in which 4.4 % of the tokens are the most frequent one
    [
        ((0.8, 0.1, 0.1), 0.135, 0.277, True),
        ((0.8, 0.1, 0.1), 0.135, 0.171, False),  # its loss did not fall steeply
        ((1.0, 0.0, 0.0), 0.044, 0.044, False),
        ((1.0, 0.0, 0.0), 0.044, 0.151, True),
        ((0.8, 0.2, 0.0), 0.235, 0.344, True),
        ((0.0, 0.2, 0.8), 0.200, 0.216, False),  # hardly more than the tokens that stay
        ((0.0, 0.0, 1.0), 0.044, 0.044, False),
    ],
)
def test_a_pretraining_that_knows_frequencies_and_kept_tokens_alone_is_not_trained(rates, least, accuracy, trained):
    found = accuracy_without_context(0.044, *rates)
    assert found == pytest.approx(least, abs=5e-4)
    assert is_trained({"mlm_accuracy": accuracy, "accuracy_without_context": found}) == trained
    assert is_trained({"mlm_accuracy": accuracy})  # nothing is known against it


@pytest.mark.parametrize("row, reference", [(0.1, 0.3), (0.3, 0.1)])
def test_a_row_that_is_not_trained_has_no_verdict(row, reference):
    entries = [
        {
            "name": name,
            "pretrained": {"mlm_accuracy": accuracy, "accuracy_without_context": 0.1},
            "scores": {"NER": {"values": values}},
        }
        for name, accuracy, values in (("100/0/0", row, LOW), ("80/10/10", reference, HIGH))
    ]
    said = judge_row(entries[0], entries[1], lambda column: -0.5)
    assert said == "100/0/0 against 80/10/10. Not trained, no verdict."
    assert entries[0]["verdicts"]["NER"]["word"] == "not trained"
