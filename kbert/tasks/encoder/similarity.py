"""Similarity of embeddings, and its agreement with human judgements.

Shapes: n sentences, H hidden.
"""

import pathlib

import numpy as np

from kbert.pipelines.build import build_pipeline
from kbert.tasks.table import read_table


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Cosine similarity of the rows of two arrays [n, H], or of two vectors; 0 where one of them is zero."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return np.sum(one * other, axis=-1) / np.maximum(lengths, 1e-12)


def sts_b_file(directory) -> pathlib.Path:
    """The dev set of STS-B, in the GLUE directory or its own.

    Raises:
        FileNotFoundError: it is in neither place.
    """
    directory = pathlib.Path(directory)
    path = next((p for p in (directory / "STS-B/dev.tsv", directory / "dev.tsv") if p.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"Expected the GLUE directory, with STS-B/dev.tsv in it. Received: {str(directory)!r}")
    return path


def read_sts_b(directory) -> tuple[list[str], list[str], np.ndarray]:
    """First sentences, second sentences and scores of STS-B's dev set."""
    table = read_table(sts_b_file(directory), ["sentence1", "sentence2", "score"], format="tsv")
    return table["sentence1"], table["sentence2"], np.array([float(score) for score in table["score"]])


def embedding_pipeline(model, sentences, sequence_length=None, **options):
    """The pipeline of an encoder with the shortest sequence length for these sentences, to save padding.

    Args:
        model: `kbert.BertEncoder`, loaded with its tokenizer.
        sentences: strings.
        sequence_length: tokens of a sentence; None: those of the longest one, up to the model's limit.
        **options: ``pooling`` and ``normalize``, see `kbert.build_pipeline`.
    """
    pipeline = build_pipeline(model, sequence_length=sequence_length, pair=False, **options)
    longest = int(max(pipeline.tokenizer(sentences).row_lengths())) + 2  # [CLS] and [SEP]
    if sequence_length or longest >= pipeline.preprocessor.sequence_length:
        return pipeline
    return build_pipeline(model, sequence_length=longest, pair=False, **options)
