"""A model's vectors with names and labels, for TensorBoard's projector.

Keras' own writer (`embeddings_freq` of its TensorBoard callback) makes files that the projector does not read.

Shapes: V vocabulary, n vectors, H hidden.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np
from numpy.typing import ArrayLike

from kbert.aliases import PathLike
from kbert.files import atomic_file
from kbert.inspection.analysis.labelled_data import LabelledData

if TYPE_CHECKING:
    from kbert.models.encoder import BertEncoder
    from kbert.text.tokenizer import BertTokenizer

CONFIG = "projector_config.pbtxt"  # the name that TensorBoard looks for
_MOST_VECTORS = 4000  # of each kind: the projector is slow with more
_BREAKS = str.maketrans(dict.fromkeys("\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Embeddings:
    """Vectors, float [n, H], with at least two columns of n values to show and to color by, the first one their names.

    TensorBoard would take a single column for values without a header.
    """

    name: str
    vectors: np.ndarray
    columns: Mapping[str, Sequence]


def word_embeddings(encoder: "BertEncoder", tokenizer: "BertTokenizer", counts: ArrayLike | None = None) -> Embeddings:
    """The rows of the embedding table, with the columns ``token``, ``id`` and ``kind`` (special …).

    At most 4,000: with `counts`, ints [V], of the most frequent tokens, with a column ``count``; without, of the first
    ones, which in most vocabularies are single characters, then the most frequent tokens.
    """
    vocabulary = tokenizer.vocabulary
    table = keras.ops.convert_to_numpy(encoder.token_embedding.embeddings).astype("float32")
    ids = np.arange(len(vocabulary))
    if counts is not None:
        counts = np.asarray(counts)
        if counts.shape != (len(vocabulary),):
            raise ValueError(
                f"inspect: `counts`: expected a number for each of {len(vocabulary):,} tokens. "
                f"Received: shape {counts.shape}"
            )
        ids = np.argsort(-counts, kind="stable")
    ids = ids[:_MOST_VECTORS]
    columns = {"token": [vocabulary[n] for n in ids], "id": ids.tolist(), "kind": [_kind(vocabulary[n]) for n in ids]}
    if counts is not None:
        columns["count"] = counts[ids].tolist()
    return Embeddings("word embeddings", table[ids], columns)


def labelled_vectors(data: LabelledData, vectors: np.ndarray) -> Embeddings:
    """The first 4,000 of [n, H] vectors of words in their sentences, or of texts, with labels."""
    texts = [text if isinstance(text, str) else (" " if data.has_words else " | ").join(text) for text in data.rows]
    columns = data.properties()
    if data.has_words:
        sentences = [text[:200] for words, text in zip(data.rows, texts, strict=True) for _ in words]
        columns = {"word": data.types()} | columns | {"sentence": sentences}
    else:
        columns = {"text": [text[:200] for text in texts]} | columns
    columns = {name: column[:_MOST_VECTORS] for name, column in columns.items()}
    return Embeddings("words in context" if data.has_words else "texts", vectors[:_MOST_VECTORS], columns)


def _kind(token):
    if token.startswith("[unused"):
        return "unused"
    if token.startswith("[") and token.endswith("]") and len(token) > 2:
        return "special"
    return "piece" if token.startswith("##") else "word"


def write_projector(directory: PathLike, embeddings: Sequence[Embeddings]) -> None:
    """Writes vectors and columns as TSV, and the config that TensorBoard looks for when it first finds the run."""
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    config = ProjectorConfig()
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for number, named in enumerate(embeddings):
        vectors = f"projector_{number}.tsv"
        metadata = f"projector_{number}_labels.tsv"
        with atomic_file(directory / vectors) as file:
            for row in np.asarray(named.vectors, "float32"):
                file.write("\t".join(f"{value:.6g}" for value in row) + "\n")
        with atomic_file(directory / metadata) as file:
            for row in (named.columns, *zip(*named.columns.values(), strict=True)):
                file.write("\t".join(map(_cell, row)) + "\n")
        config.embeddings.add(
            tensor_name=named.name, tensor_path=vectors, metadata_path=metadata, tensor_shape=np.shape(named.vectors)
        )
    with atomic_file(directory / CONFIG) as file:
        file.write(text_format.MessageToString(config, as_utf8=True))


def _cell(value):
    """A value in one line and one column; an empty one would look like a missing line."""
    return str(value).translate(_BREAKS).strip() or "(empty)"
