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
_BREAKS = str.maketrans(dict.fromkeys("\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Embeddings:
    """Vectors, float [n, H], with columns of n values to show and to colour by, the first one their names."""

    name: str
    vectors: np.ndarray
    columns: Mapping[str, Sequence]

    def __post_init__(self):
        if not np.isfinite(self.vectors).all():
            raise ValueError(f"Embeddings {self.name!r}: expected finite numbers. Received: others")


def word_embeddings(
    encoder: "BertEncoder", tokenizer: "BertTokenizer", counts: ArrayLike | None = None, max_vectors: int = 4000
) -> Embeddings:
    """The rows of the embedding table, with the columns ``token``, ``id`` and ``kind`` (special …).

    With `counts`, ints [V], those of the `max_vectors` most frequent tokens, with the columns ``count`` and ``per
    million``, too. Without, those of the first tokens, which in most vocabularies are single characters, then the most
    frequent tokens.
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
    ids = ids[:max_vectors]
    columns = {"token": [vocabulary[n] for n in ids], "id": ids.tolist(), "kind": [_kind(vocabulary[n]) for n in ids]}
    if counts is not None:
        fraction = counts / max(int(counts.sum()), 1)
        columns |= {"count": counts[ids].tolist(), "per million": [f"{1e6 * fraction[n]:.1f}" for n in ids]}
    return Embeddings("word embeddings", table[ids], columns)


def labelled_vectors(data: LabelledData, vectors: np.ndarray, max_vectors: int = 4000) -> Embeddings:
    """The first `max_vectors` of [n, H] vectors of words in their sentences, or of texts, with labels."""
    texts = [text if isinstance(text, str) else (" " if data.has_words else " | ").join(text) for text in data.rows]
    columns = data.properties()
    if data.has_words:
        sentences = [text[:200] for words, text in zip(data.rows, texts, strict=True) for _ in words]
        columns = {"word": data.types()} | columns | {"sentence": sentences}
    else:
        columns = {"text": [text[:200] for text in texts]} | columns
    columns = {name: column[:max_vectors] for name, column in columns.items()}
    return Embeddings("words in context" if data.has_words else "texts", vectors[:max_vectors], columns)


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
            file.writelines("\t".join(row) + "\n" for row in _metadata(named.columns))
        config.embeddings.add(
            tensor_name=named.name, tensor_path=vectors, metadata_path=metadata, tensor_shape=np.shape(named.vectors)
        )
    with atomic_file(directory / CONFIG) as file:
        file.write(text_format.MessageToString(config, as_utf8=True))


def _metadata(columns):
    """Rows of cells, the header first; TensorBoard takes a single column for values without a header."""
    columns = dict(columns)
    if len(columns) == 1:
        columns["number"] = range(len(next(iter(columns.values()))))
    yield [_cell(name) for name in columns]
    for row in zip(*columns.values(), strict=True):
        yield [_cell(value) for value in row]


def _cell(value):
    """A value in one line and one column; an empty one would look like a missing line."""
    return str(value).translate(_BREAKS).strip() or "(empty)"
