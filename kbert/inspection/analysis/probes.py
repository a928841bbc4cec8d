"""What can be read off each layer, how much of that is the probe's own memory, and how similar layers are.

Shapes: n words (or texts), L layers, H hidden.
"""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_ITERATIONS = 200  # of L-BFGS at most


@dataclasses.dataclass(frozen=True, eq=False)
class LayerProbes:
    """The scores of a probe of each layer, the embeddings first.

    `control_accuracy` is for random labels by word type. `macro_f1` averages over the classes that occur in the test
    words. `majority` is the accuracy of the most frequent training label. `unknown` counts the test words whose label
    no training word has: they count as wrong.
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


def probe_layers(
    name: str,
    train: tuple[np.ndarray, Sequence[Any], Sequence[Any]],
    test: tuple[np.ndarray, Sequence[Any], Sequence[Any]],
    *,
    seed: int = 0,
    l2: float = 1e-2,
) -> LayerProbes:
    """Trains a linear probe on every layer, and one with random labels beside it.

    `train` and `test` are (states [n, L, H], n labels, n word types). A probe is scikit-learn's multinomial logistic
    regression on standardised states, which gives the same result every time. It minimises the mean cross-entropy + l2
    / 2 · |weights|².

    Source: Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks": the control label of a word
    type is drawn from the distribution of the labels.
    """
    labels = sorted(set(train[1]))
    number = {label: n for n, label in enumerate(labels)}
    train_ids, test_ids = (np.array([number.get(label, -1) for label in part[1]]) for part in (train, test))
    fraction = np.bincount(train_ids, minlength=len(labels)) / len(train_ids)
    # A random label for each type, drawn in an order that does not depend on the order of the words.
    types = sorted({*train[2], *test[2]})
    rng = np.random.Generator(np.random.PCG64(seed))
    control = dict(zip(types, rng.choice(len(fraction), size=len(types), p=fraction), strict=True))
    train_control, test_control = (np.array([control[word_type] for word_type in part[2]]) for part in (train, test))
    accuracy = []
    macro_f1 = []
    control_accuracy = []
    for layer in range(train[0].shape[1]):
        states, test_states = train[0][:, layer], test[0][:, layer]
        guesses = _probe(states, train_ids, test_states, l2)
        accuracy.append(float((guesses == test_ids).mean()))
        macro_f1.append(_macro_f1(guesses, test_ids))
        guesses = _probe(states, train_control, test_states, l2)
        control_accuracy.append(float((guesses == test_control).mean()))
    return LayerProbes(
        name,
        labels,
        accuracy,
        macro_f1,
        control_accuracy,
        majority=float((test_ids == fraction.argmax()).mean()),
        train_words=len(train_ids),
        test_words=len(test_ids),
        unknown=int((test_ids < 0).sum()),
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


def _macro_f1(guesses, truth):
    from sklearn.metrics import f1_score

    occurring = np.unique(truth[truth >= 0])
    return float(f1_score(truth, guesses, labels=occurring, average="macro")) if len(occurring) else 0.0


def layer_similarity(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """Linear CKA of each layer of one model and each of another on the same n words.

    `x` is [n, L, H], `y` [n, L', H'], the result float64 [L, L'] in [0, 1]: 1 where one is the other up to rotation,
    scale and shift, 0 if one does not vary.

    Source: Kornblith et al. 2019, "Similarity of Neural Network Representations Revisited", equation 3 with linear
    kernels.
    """
    x, y = np.asarray(x, "float64"), np.asarray(y, "float64")
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    x_norm, y_norm = ([_hsic(states[:, k], states[:, k]) for k in range(states.shape[1])] for states in (x, y))
    similarity = np.zeros((x.shape[1], y.shape[1]))
    for i, a in enumerate(x_norm):
        for j, b in enumerate(y_norm):
            if a > 0 and b > 0:
                similarity[i, j] = _hsic(x[:, i], y[:, j]) / np.sqrt(a * b)
    return similarity


def _hsic(x, y):
    """The squared Frobenius norm of the cross-covariance, but for the factor that cancels."""
    if len(x) < min(x.shape[1], y.shape[1]):
        return ((x @ x.T) * (y @ y.T)).sum()  # an equal number, cheaper for few words
    return ((x.T @ y) ** 2).sum()
