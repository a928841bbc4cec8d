"""Whether a difference between two rows is the paper's, a tie, or the reverse; decided by means and deviations."""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

SEEN, TIE, REVERSED, ONE_SEED = "seen", "tie", "reversed", "one seed"
NOT_TRAINED = "not trained"
HIGHER, LOWER = "higher", "lower"  # where the paper says nothing
UNEQUAL = "unequal"  # where the paper's figures are the same
_PLATEAU = 0.05  # runs that had not left the plateau were up to 0.04 above that accuracy (docs/pretraining.md)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The comparison of a row with its reference in one column.

    Attributes:
        word: ``seen``: the difference has the paper's sign; ``reversed``: the other; ``higher`` or ``lower``: the paper
            has no figures; ``unequal``: the paper's figures are the same, and these differ; ``tie``: the means differ
            by no more than both standard deviations together; ``one seed``: there are no deviations, and nothing is
            concluded; ``not trained``: one of the two pre-trainings has not left the plateau (`is_trained`).
        difference: of the means.
        spread: the sum of both standard deviations, or None.
        paper: the difference of the paper's figures, or only its sign as ±1; None: the paper has none.
    """

    word: str
    difference: float
    spread: float | None
    paper: float | None


def accuracy_without_context(
    unigram: float, mask_token_rate: float, keep_rate: float, random_token_rate: float
) -> float:
    """The masked-LM accuracy of a model that knows how frequent tokens are and how they are masked, and nothing else.

    It answers [MASK] with the most frequent token, and any other token with itself or with the most frequent one.

    Args:
        unigram: the accuracy of always predicting the most frequent token.
        mask_token_rate, keep_rate, random_token_rate: what becomes of masked tokens, see `kbert.pretrain`.
    """
    return mask_token_rate * unigram + max(keep_rate, (keep_rate + random_token_rate) * unigram)


def is_trained(pretrained: Mapping[str, float]) -> bool:
    """Whether a pre-training has learned something of the context: a row of a table that has not is no result.

    Args:
        pretrained: held-out scores with ``mlm_accuracy`` and ``accuracy_without_context``; without the latter, as of
            random weights, nothing is known against it.
    """
    least = pretrained.get("accuracy_without_context")
    return least is None or pretrained["mlm_accuracy"] > least + _PLATEAU


def judge(
    values: Sequence[float], reference: Sequence[float], paper: float | None = None, trained: bool = True
) -> Verdict:
    """Compares the scores of the seeds of a row with those of its reference.

    Args:
        paper: see `Verdict`.
        trained: whether both pre-trainings have left the plateau.
    """
    difference = statistics.mean(values) - statistics.mean(reference)
    if min(len(values), len(reference)) < 2:
        return Verdict(ONE_SEED, difference, None, paper)
    spread = statistics.stdev(values) + statistics.stdev(reference)
    if not trained:
        word = NOT_TRAINED
    elif abs(difference) <= spread:
        word = TIE
    elif paper is None:
        word = HIGHER if difference > 0 else LOWER
    elif paper == 0:
        word = UNEQUAL
    else:
        word = SEEN if math.copysign(1, difference) == math.copysign(1, paper) else REVERSED
    return Verdict(word, difference, spread, paper)


def sentence(name: str, reference: str, verdicts: dict[str, Verdict]) -> str:
    """One sentence on a row: what each column says of it."""
    parts = []
    for column, one in verdicts.items():
        by = f"{one.difference:+.1f}" if one.spread is None else f"{one.difference:+.1f}, spread {one.spread:.1f}"
        meaning = {
            SEEN: "the paper's sign is seen",
            REVERSED: "the paper's sign is reversed",
            TIE: "a tie",
            UNEQUAL: "unequal; the paper's figures are the same",
            ONE_SEED: "one seed, no verdict",
            NOT_TRAINED: "not trained, no verdict",
        }.get(one.word, f"{one.word}; the paper has no figure")
        parts.append(f"{column} {by}: {meaning}")
    return f"{name}, against {reference}: {'; '.join(parts)}."
