"""Arrays and tensors as JSON holds them."""

import numpy as np

from kbert.inspection.playground.request_fields import BadRequest
from kbert.preprocessing.strings import as_text


def rounded(values) -> list | float:
    """Nested lists of the numbers, rounded to seven significant digits, as many as float32 has.

    BadRequest says that there is NaN or infinity, which a model with such weights gives.
    """
    values = np.asarray(values, "float64")
    if not np.isfinite(values).all():
        raise BadRequest("Expected finite numbers of the model. Received: NaN or infinity: its weights are damaged.")
    if values.ndim == 0:
        return float(f"{values:.7g}")
    return [rounded(row) for row in values] if values.ndim > 1 else [float(f"{value:.7g}") for value in values]


def as_arrays(answers) -> dict[str, np.ndarray]:
    """Answers as `kbert.Pipeline.predict` gives them: tensors as arrays, strings as ``str``."""
    return {name: as_text(np.asarray(answer)) for name, answer in answers.items()}
