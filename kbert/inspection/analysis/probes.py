"""Linear probes: what can be read off each layer, and how much of that is the probe's own memory.

Shapes: n words (or texts), L layers, H hidden.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbert.inspection.analysis.logistic_regression import fit_logistic_regression

_DEV_SHARE = 0.1  # of the training words, which decide when a probe is trained enough


@dataclasses.dataclass(frozen=True, eq=False)
class LayerProbes:
    """The scores of a probe of each layer, the embeddings first.

    Attributes:
        name: of the property, such as "pos".
        accuracy, control_accuracy: on the test words; those of the control task are random labels by word type.
        macro_f1: mean of the F1 scores of the classes that occur in the test words.
        majority: accuracy of the most frequent label of the training words.
        train_words, test_words: how many there were.
        unknown: how many of the test words have a label that no training word has; they count as wrong.
    """

    name: str
    labels: list[str]
    accuracy: list[float]
    macro_f1: list[float]
    control_accuracy: list[float]
    majority: float
    train_words: int
    test_words: int
    unknown: int
    iterations: list[int]

    @property
    def selectivity(self) -> list[float]:
        """Accuracy less that of the control task: high where the layer knows, low where the probe remembers."""
        return [a - b for a, b in zip(self.accuracy, self.control_accuracy, strict=True)]

    @property
    def best_layer(self) -> int:
        """The layer with the highest accuracy; 0: the embeddings."""
        return int(np.argmax(self.accuracy))

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return dataclasses.asdict(self) | {"selectivity": self.selectivity, "best_layer": self.best_layer}


def probe_layers(name: str, train, test, *, seed: int = 0, l2: float = 1e-2) -> LayerProbes:
    """Trains a linear probe on every layer, and one with random labels beside it.

    Each probe is a multinomial logistic regression on standardised states, trained on nine tenths of the words at once
    and stopped early by the others: the result is the same every time.

    Args:
        train, test: tuples of the states [n, L, H], the n labels and the n word types (the words; of texts the texts).
        seed: decides the control task's labels and the tenth that is held out.
        l2: the probes' penalty.

    Raises:
        ValueError: fewer than two labels, or not as many labels and types as states.

    Source: Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks": the label of a word type in
    the control task is drawn at random from the distribution of the labels.
    """
    for part, (states, some, types) in (("train", train), ("test", test)):
        if np.ndim(states) != 3 or not len(states) == len(some) == len(types) or not len(some):
            raise ValueError(
                f"probe_layers: expected states [n, L, H] and n labels and types to {part} {name!r}. "
                f"Received: shape {np.shape(states)}, {len(some)} labels and {len(types)} types"
            )
    labels = sorted(set(map(str, train[1])))
    if len(labels) < 2:
        raise ValueError(f"probe_layers: expected at least two labels of {name!r} to tell apart. Received: {labels}")
    number = {label: n for n, label in enumerate(labels)}
    train_ids, test_ids = (np.array([number.get(str(label), -1) for label in part[1]]) for part in (train, test))
    share = np.bincount(train_ids, minlength=len(labels)) / len(train_ids)
    rng = np.random.Generator(np.random.PCG64(seed))
    control = dict(_random_labels([*train[2], *test[2]], share, rng))
    train_control, test_control = (np.array([control[one] for one in part[2]]) for part in (train, test))
    is_dev = rng.permutation(len(train_ids)) < max(1, round(_DEV_SHARE * len(train_ids)))
    found = {"accuracy": [], "macro_f1": [], "control_accuracy": [], "iterations": []}
    for layer in range(np.shape(train[0])[1]):
        states, test_states = train[0][:, layer], test[0][:, layer]
        for ids, truth, is_control in ((train_ids, test_ids, False), (train_control, test_control, True)):
            dev = (states[is_dev], ids[is_dev])
            probe = fit_logistic_regression(states[~is_dev], ids[~is_dev], len(labels), dev=dev, l2=l2)
            guesses = probe.predict(test_states)
            found["control_accuracy" if is_control else "accuracy"].append(float((guesses == truth).mean()))
            if not is_control:
                found["macro_f1"].append(_macro_f1(guesses, truth))
                found["iterations"].append(probe.iterations)
    return LayerProbes(
        name,
        labels,
        majority=float((test_ids == share.argmax()).mean()),
        train_words=len(train_ids),
        test_words=len(test_ids),
        unknown=int((test_ids < 0).sum()),
        **found,
    )


def _random_labels(types: Sequence, share, rng):
    """A label for each type, drawn in an order that does not depend on that of the words."""
    known = sorted(set(types))
    return zip(known, rng.choice(len(share), size=len(known), p=share), strict=True)


def _macro_f1(guesses, truth):
    scores = []
    for label in np.unique(truth[truth >= 0]):
        hits = ((guesses == label) & (truth == label)).sum()
        scores.append(2 * hits / ((guesses == label).sum() + (truth == label).sum()))
    return float(np.mean(scores)) if scores else 0.0
