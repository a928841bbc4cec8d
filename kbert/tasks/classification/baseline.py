"""What a constant answer scores: the figure that a model has to beat."""

from collections.abc import Sequence

import numpy as np

from kbert.tasks.classification.labelled_text import LabelledText
from kbert.tasks.classification.metrics import METRICS


def constant_baseline(train: LabelledText, dev: LabelledText, metrics: Sequence[str]) -> dict:
    """Scores on `dev` of always answering the most frequent label of `train` (of scores: their mean).

    Args:
        train, dev: labelled texts.
        metrics: names of `kbert.tasks.classification.metrics.METRICS`.

    Example::

        constant_baseline(train, dev, ["accuracy"])  # {"accuracy": 0.509…} on SST-2
    """
    answer = train.labels.mean() if train.regression else np.bincount(train.labels).argmax()
    answers = np.full(len(dev), answer)
    return {name: METRICS[name](dev.labels, answers) for name in metrics}
