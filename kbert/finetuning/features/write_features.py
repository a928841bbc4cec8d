"""Files of features: the original's JSON lines, or NumPy's archives.

Shapes: n tokens or words of a text, L layers, H hidden.
"""

import json
import pathlib
import zipfile
from collections.abc import Iterable, Sequence

import numpy as np

from kbert.files import atomic_file
from kbert.locks import locked_output


def write_features(path, texts: Iterable[tuple[list[str], np.ndarray]], layers: Sequence[int]) -> int:
    """Writes the features from `text_features`, one text at a time; the file appears atomically.

    Args:
        path: .jsonl: the format of the original's extract_features.py, numbers with six decimals; .npz: arrays
            ``tokens_0`` and ``features_0`` (float32 [n, L, H]) for the first text, and so on.
        texts: (tokens or words, features [n, L, H]) of each text.
        layers: the names of the L layers in a .jsonl file.

    Returns:
        The number of texts.

    Raises:
        ValueError: another file name extension, no texts.
        BlockingIOError: another process writes to `path`.
    """
    path = pathlib.Path(path)
    writers = {".jsonl": ("w", _write_jsonl), ".npz": ("wb", _write_npz)}
    if path.suffix.lower() not in writers:
        raise ValueError(f"Expected a file whose name ends in .jsonl or .npz. Received: {path}")
    mode, write = writers[path.suffix.lower()]
    with locked_output(path) as place, atomic_file(place, mode) as file:
        count = write(file, texts, layers)
        if not count:
            raise ValueError(f"{path}: expected at least one text. Received: none")
    return count


def _write_jsonl(file, texts, layers):
    count = 0
    for count, (tokens, features) in enumerate(texts, start=1):  # noqa: B007 - returned
        rows = [{"token": token, "layers": _layers(layers, of)} for token, of in zip(tokens, features, strict=True)]
        file.write(json.dumps({"linex_index": count - 1, "features": rows}, ensure_ascii=False) + "\n")
    return count


def _layers(layers, features):
    pairs = zip(layers, features, strict=True)
    return [{"index": index, "values": [round(x, 6) for x in values.tolist()]} for index, values in pairs]


def _write_npz(file, texts, layers):
    count = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for count, (tokens, features) in enumerate(texts, start=1):  # noqa: B007 - returned
            for name, array in (("tokens", np.array(tokens, "U")), ("features", features)):
                with archive.open(f"{name}_{count - 1}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array)
    return count
