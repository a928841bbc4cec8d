"""Grids of settings as a command line gives them."""

import itertools
import json
from collections.abc import Sequence

from kbert.tasks.finetuning_options import FinetuningOptions


def parse_grid(words: Sequence[str]) -> list[dict]:
    """All combinations of words such as ``learning_rate=1e-4,3e-4``.

    Args:
        words: ``NAME=VALUE[,VALUE…]`` with an option of `kbert.finetune` as the name, and values as JSON writes them.

    Raises:
        ValueError: a word of another form, an option twice, or a value that it does not take.

    Example::

        parse_grid(["learning_rate=1e-4,3e-4", "dropout=0"])
        # [{"learning_rate": 0.0001, "dropout": 0}, {"learning_rate": 0.0003, "dropout": 0}]
    """
    choices = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not values or name in choices or name not in FinetuningOptions.__dataclass_fields__:
            raise ValueError(
                f"expected NAME=VALUE[,VALUE…], each option of kbert.finetune once, as learning_rate=1e-4,3e-4. "
                f"Received: {word!r}"
            )
        try:
            choices[name] = [json.loads(value) for value in values.split(",")]
        except ValueError:
            raise ValueError(f"{name}: expected numbers, true, false or null. Received: {values!r}") from None
    cells = [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
    for cell in cells:
        FinetuningOptions(**cell)  # raises
    return cells
