"""A model's vectors with their names, for the projector.

Shapes: V vocabulary, n words or texts, H hidden.
"""

import keras
import numpy as np

from kbert.inspection.findings.projector import Embeddings
from kbert.inspection.labelled_data import LabelledWords


def word_embeddings(encoder, tokenizer, counts=None, max_vectors: int = 4000) -> Embeddings:
    """The rows of the embedding table, with the columns ``token``, ``id`` and ``kind`` (special …).

    With `counts`, ints [V], the `max_vectors` most frequent tokens are taken, and ``count`` and
    ``per million`` are added. Without, the first tokens of the vocabulary are taken: in most
    vocabularies these are the most frequent ones after the single characters.
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
        share = counts / max(int(counts.sum()), 1)
        columns |= {"count": counts[ids].tolist(), "per million": [f"{1e6 * share[n]:.1f}" for n in ids]}
    return Embeddings("word embeddings", table[ids], columns)


def labelled_vectors(data, vectors, max_vectors: int = 4000) -> Embeddings:
    """The first `max_vectors` of [n, H] vectors of words in their sentences, or of texts, with labels."""
    columns = {name: labels[:max_vectors] for name, labels in data.properties().items()}
    if isinstance(data, LabelledWords):
        sentences = [text[:200] for words, text in zip(data.words, data.texts, strict=True) for _ in words]
        return Embeddings(
            "words in context",
            vectors[:max_vectors],
            {"word": data.types()[:max_vectors]} | columns | {"sentence": sentences[:max_vectors]},
        )
    texts = [text if isinstance(text, str) else " | ".join(text) for text in data.texts]
    return Embeddings("texts", vectors[:max_vectors], {"text": [text[:200] for text in texts][:max_vectors]} | columns)


def _kind(token):
    if token.startswith("[unused"):
        return "unused"
    if token.startswith("[") and token.endswith("]") and len(token) > 2:
        return "special"
    return "piece" if token.startswith("##") else "word"
