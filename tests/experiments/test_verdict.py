"""A difference is the paper's, a tie or the reverse by means and deviations alone."""

import numpy as np
import pytest

from kbert.experiments.result import judge_row
from kbert.experiments.verdict import is_trained, judge, plateau_cross_entropy, sentence

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


@pytest.mark.parametrize(
    "rates, cross_entropy, trained",  # of runs with token frequencies of 6.85 nats, by hand
    [
        ((0.8, 0.1, 0.1), 4.50, True),  # 80/10/10, after the plateau
        ((0.8, 0.1, 0.1), 5.92, False),  # still on it, with an accuracy of 17.1 %
        ((1.0, 0.0, 0.0), 6.89, False),
        ((1.0, 0.0, 0.0), 5.51, True),
        ((0.8, 0.2, 0.0), 4.14, True),
        ((0.0, 0.2, 0.8), 5.66, False),  # right in 21.6 % of the cases: hardly more than the kept 20 %
        ((0.0, 0.0, 1.0), 6.89, False),
    ],
)
def test_a_pretraining_that_knows_frequencies_and_kept_tokens_alone_is_not_trained(rates, cross_entropy, trained):
    plateau = plateau_cross_entropy(6.85, *rates)
    assert is_trained({"mlm_cross_entropy": cross_entropy, "plateau_cross_entropy": plateau}) == trained


def test_the_loss_of_the_plateau_is_the_best_without_context():
    """Over all shares of the probability that such a model can give the token that it sees."""
    frequencies, rates = np.array([0.4, 0.3, 0.2, 0.1]), (0.0, 0.25, 0.75)
    unigram = -(frequencies * np.log(frequencies)).sum()
    losses = [-0.25 * np.log(share) + 0.75 * (unigram - np.log(1 - share)) for share in np.linspace(0.01, 0.99, 99)]
    assert plateau_cross_entropy(unigram, *rates) == pytest.approx(min(losses))
    assert plateau_cross_entropy(unigram, 1.0, 0.0, 0.0) == pytest.approx(unigram)
    assert plateau_cross_entropy(unigram, 0.0, 1.0, 0.0) == pytest.approx(0.0)


@pytest.mark.parametrize("row, reference", [(6.0, 4.5), (4.5, 6.0)])
def test_a_row_that_is_not_trained_has_no_verdict(row, reference):
    entries = [
        {
            "name": name,
            "pretrained": {"mlm_cross_entropy": loss, "plateau_cross_entropy": 6.3},
            "scores": {"NER": {"values": values}},
        }
        for name, loss, values in (("100/0/0", row, LOW), ("80/10/10", reference, HIGH))
    ]
    said = judge_row(entries[0], entries[1], lambda column: -0.5)
    assert said == "100/0/0, against 80/10/10: NER -10.0, spread 2.0: not trained, no verdict."
    assert entries[0]["verdicts"]["NER"]["word"] == "not trained"
