"""Fixed features from a frozen encoder: hidden states of tokens and words of texts of any length.

Shapes: W windows, S sequence, L layers, H hidden, n words or tokens.
"""

import itertools
import json
import pathlib
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from kbert.aliases import PathLike
from kbert.files import atomic_file
from kbert.inspection.analysis.states import window_states
from kbert.locks import locked_output
from kbert.training.callbacks import PredictionProgress

if TYPE_CHECKING:
    from kbert.models.encoder import BertEncoder
    from kbert.preprocessing.window_preprocessors import TaggingPreprocessor


def layer_numbers(layers: Sequence[int], num_layers: int) -> tuple[int, ...]:
    """Layers as numbers from 0 (the embeddings) to `num_layers`; negative ones count from the end, -1 is the last."""
    count = num_layers + 1
    wrong = [layer for layer in layers if not -count <= layer < count]
    if wrong or not layers:
        raise ValueError(f"Expected layers from {-count} to {num_layers} (0: embeddings). Received: {list(layers)}")
    return tuple(layer % count for layer in layers)


def text_features(
    encoder: "BertEncoder",
    preprocessor: "TaggingPreprocessor",
    texts: Iterable[str],
    layers: Sequence[int],
    *,
    align: Literal["tokens", "words"] = "tokens",
    batch_size: int = 32,
    total: int | None = None,
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yields (tokens or words, their features as float32 [n, L, H]) of each text, in order.

    The features of a token are from the window in which it has the most context, so texts may be of any length. Aligned
    with "tokens" are all word pieces, with the [CLS] of the text's first window and the [SEP] of its last; with "words"
    the words as taggers split them, each with the features of its first token. With `total` a log line now and then
    says how much time is left.

    Source: google-research/bert extract_features.py, which cuts texts that do not fit.
    """
    vocabulary = np.array(preprocessor.tokenizer.vocabulary, object)
    rows = iter(texts)
    progress = PredictionProgress(total or 0, batch_size, what="texts read")
    done = 0
    while part := list(itertools.islice(rows, batch_size)):
        batch = {name: value.numpy() for name, value in preprocessor({"text": part}).items()}
        states = np.zeros((*batch["token_ids"].shape, len(layers), encoder.config.hidden_dim), "float32")
        for start, values in window_states(encoder, batch, layers, batch_size):
            states[start : start + len(values), : values.shape[1]] = values
        for row in range(len(part)):
            if align == "words":
                position = batch["word_position"][row, : batch["word_count"][row]]
                names = [word.decode() for word in batch["words"][row, : len(position)]]
            else:
                position = _token_positions(batch, row)
                names = vocabulary[batch["token_ids"].reshape(-1)[position]].tolist()
            yield names, states.reshape(-1, *states.shape[2:])[position]
        progress.done(done := done + len(part))


def _token_positions(batch: dict, row: int) -> np.ndarray:
    """Positions in the flat [W * S] of a text's [CLS], its tokens and its [SEP]."""
    windows = np.flatnonzero(batch["window_row"] == row)
    size = batch["token_ids"].shape[1]
    flat = batch["is_max_context"][windows].reshape(-1)
    inside = np.flatnonzero(flat) + windows[0] * size
    order = np.argsort(batch["window_token"].reshape(-1)[inside])
    sep = windows[-1] * size + batch["padding_mask"][windows[-1]].sum() - 1
    return np.concatenate([[windows[0] * size], inside[order], [sep]]).astype(int)


def write_features(path: PathLike, texts: Iterable[tuple[list[str], np.ndarray]], layers: Sequence[int]) -> int:
    """Writes what `text_features` yields, one text at a time; the file appears atomically. Returns how many texts.

    A .jsonl file has the format of the original's extract_features.py, numbers with six decimals, and the names of the
    layers; an .npz file the arrays ``tokens_0`` and ``features_0`` for the first text, and so on.
    """
    is_jsonl = pathlib.Path(path).suffix.lower() == ".jsonl"
    mode, write = ("w", _write_jsonl) if is_jsonl else ("wb", _write_npz)
    with locked_output(path) as place, atomic_file(place, mode) as file:
        count = write(file, texts, layers)
        if not count:
            raise ValueError(f"{path}: expected at least one text. Received: none")
    return count


def _write_jsonl(file, texts: Iterable, layers: Sequence[int]) -> int:
    count = 0
    for count, (tokens, features) in enumerate(texts, start=1):  # noqa: B007 - returned
        rows = [{"token": token, "layers": _layers(layers, of)} for token, of in zip(tokens, features, strict=True)]
        file.write(json.dumps({"linex_index": count - 1, "features": rows}, ensure_ascii=False) + "\n")
    return count


def _layers(layers: Sequence[int], features: np.ndarray) -> list[dict]:
    pairs = zip(layers, features, strict=True)
    return [{"index": index, "values": [round(x, 6) for x in values.tolist()]} for index, values in pairs]


def _write_npz(file, texts: Iterable, layers: Sequence[int]) -> int:
    count = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for count, (tokens, features) in enumerate(texts, start=1):  # noqa: B007 - returned
            for name, array in (("tokens", np.array(tokens, "U")), ("features", features)):
                with archive.open(f"{name}_{count - 1}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array)
    return count
