"""Linear probes: what can be read off each layer, and how much of that is the probe's own memory.

Shapes: n words (or texts), L layers, H hidden.
"""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

_ITERATIONS = 200  # of L-BFGS at most


@dataclasses.dataclass(frozen=True, eq=False)
class LayerProbes:
    """The scores of a probe of each layer, the embeddings first.

    `control_accuracy` is for random labels by word type. `macro_f1` averages over the classes that
    occur in the test words. `majority` is the accuracy of the most frequent training label.
    `unknown` counts the test words whose label no training word has: they count as wrong.
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

    @property
    def selectivity(self) -> list[float]:
        """Accuracy minus control accuracy: high where the layer knows, low where the probe remembers."""
        return [a - b for a, b in zip(self.accuracy, self.control_accuracy, strict=True)]

    @property
    def best_layer(self) -> int:
        """The layer with the highest accuracy; 0: the embeddings."""
        return int(np.argmax(self.accuracy))

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"selectivity": self.selectivity, "best_layer": self.best_layer}


def probe_layers(name: str, train, test, *, seed: int = 0, l2: float = 1e-2) -> LayerProbes:
    """Trains a linear probe on every layer, and one with random labels beside it.

    `train` and `test` are (states [n, L, H], n labels, n word types). A probe is scikit-learn's
    multinomial logistic regression on standardised states, which gives the same result every time.
    It minimises the mean cross-entropy + l2 / 2 · |weights|².

    Source: Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks": the
    control label of a word type is drawn from the distribution of the labels.
    """
    for part, (states, labels, types) in (("train", train), ("test", test)):
        if np.ndim(states) != 3 or not len(states) == len(labels) == len(types) or not len(labels):
            raise ValueError(
                f"probe_layers: expected states [n, L, H] and n labels and types to {part} {name!r}. "
                f"Received: shape {np.shape(states)}, {len(labels)} labels and {len(types)} types"
            )
    labels = sorted(set(map(str, train[1])))
    if len(labels) < 2:
        raise ValueError(f"probe_layers: expected at least two labels of {name!r} to tell apart. Received: {labels}")
    number = {label: n for n, label in enumerate(labels)}
    train_ids, test_ids = (np.array([number.get(str(label), -1) for label in part[1]]) for part in (train, test))
    share = np.bincount(train_ids, minlength=len(labels)) / len(train_ids)
    rng = np.random.Generator(np.random.PCG64(seed))
    control = dict(_random_labels([*train[2], *test[2]], share, rng))
    train_control, test_control = (np.array([control[word_type] for word_type in part[2]]) for part in (train, test))
    scores = {"accuracy": [], "macro_f1": [], "control_accuracy": []}
    for layer in range(np.shape(train[0])[1]):
        states, test_states = train[0][:, layer], test[0][:, layer]
        guesses = _probe(states, train_ids, test_states, l2)
        scores["accuracy"].append(float((guesses == test_ids).mean()))
        scores["macro_f1"].append(_macro_f1(guesses, test_ids))
        guesses = _probe(states, train_control, test_states, l2)
        scores["control_accuracy"].append(float((guesses == test_control).mean()))
    return LayerProbes(
        name,
        labels,
        majority=float((test_ids == share.argmax()).mean()),
        train_words=len(train_ids),
        test_words=len(test_ids),
        unknown=int((test_ids < 0).sum()),
        **scores,
    )


def _probe(states, ids, test_states, l2):
    """What a probe that is trained on states [n, H] and their labels answers for others."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if (ids == ids[0]).all():  # random labels of a few words may be all equal
        return np.full(len(test_states), ids[0])
    regression = LogisticRegression(C=1 / (l2 * len(ids)), max_iter=_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(StandardScaler(), regression).fit(states, ids).predict(test_states)


def _random_labels(types: Sequence, share, rng):
    """A label for each type, drawn in an order that does not depend on the order of the words."""
    word_types = sorted(set(types))
    return zip(word_types, rng.choice(len(share), size=len(word_types), p=share), strict=True)


def _macro_f1(guesses, truth):
    scores = []
    for label in np.unique(truth[truth >= 0]):
        hits = ((guesses == label) & (truth == label)).sum()
        scores.append(2 * hits / ((guesses == label).sum() + (truth == label).sum()))
    return float(np.mean(scores)) if scores else 0.0
