"""Prints how closely kbert and other libraries agree, for every task: `python tests/parity_table.py`.

Every number is the worst difference of an output, relative to its largest absolute value, over a few texts of different
lengths. The models are small, with random weights, biases and LayerNorms included.
"""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]

from helpers import other_libraries as libraries  # noqa: E402

_ALL = {task: task for task in libraries.AUTO}
_GOOGLE = {task: task for task in ("encoder", "pretraining", "next_sentence", "classification", "regression")}
_GOOGLE |= {"masked_lm": "masked_lm with pooler", "span": "span with pooler"}
_KERAS_HUB = {task: task for task in ("encoder", "classification", "regression")}
_KERAS_HUB |= {"masked_lm": "masked_lm as KerasHub's"}
_COLUMNS = {  # heading → function, and the tasks that the other library has with the names of kbert's models
    "kbert → transformers": (libraries.to_transformers, _ALL),
    "transformers → kbert": (libraries.from_transformers, _ALL),
    "Google → kbert → Google": (libraries.through_google, _GOOGLE),
    "KerasHub ↔ kbert": (libraries.through_keras_hub, _KERAS_HUB),
    "peft ↔ kbert": (libraries.through_peft, _ALL),
}


def main() -> None:
    print(f"| task | {' | '.join(_COLUMNS)} |\n|---|{'---|' * len(_COLUMNS)}")
    for task in libraries.AUTO:
        cells = [_measured(measure, names[task]) if task in names else "–" for measure, names in _COLUMNS.values()]
        print(f"| {task} | {' | '.join(cells)} |", flush=True)
    for pooling in libraries.POOLINGS:
        number = _measured(lambda name, place: libraries.through_sentence_transformers(place, name), pooling)
        print(f"sentence-transformers ↔ kbert, pooling {pooling!r}: {number}", flush=True)


def _measured(measure, name):
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f"{measure(name, pathlib.Path(place)):.1e}"


if __name__ == "__main__":
    main()
