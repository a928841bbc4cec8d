"""Embeddings of sentences, their similarity, and its agreement with human judgements.

Shapes: n sentences, H hidden.
"""

import os
import pathlib
import time
from collections.abc import Sequence

import numpy as np

from kbert.tasks.metrics import pearson, spearman
from kbert.tasks.table import read_table
from kbert.training.callbacks import PredictionProgress
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Cosine similarity of the rows of two arrays [n, H], or of two vectors. It is 0 where one of them is zero."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return np.sum(one * other, axis=-1) / np.maximum(lengths, 1e-12)


def sts_b_file(directory) -> pathlib.Path:
    """The dev set of STS-B, in the GLUE directory or its own."""
    directory = pathlib.Path(directory)
    path = next((p for p in (directory / "STS-B/dev.tsv", directory / "dev.tsv") if p.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"Expected the GLUE directory, with STS-B/dev.tsv in it. Received: {str(directory)!r}")
    return path


def read_sts_b(directory) -> tuple[list[str], list[str], np.ndarray]:
    """First sentences, second sentences and scores of STS-B's dev set."""
    table = read_table(sts_b_file(directory), ["sentence1", "sentence2", "score"], format="tsv")
    return table["sentence1"], table["sentence2"], np.array([float(score) for score in table["score"]])


def score_pairs(embeddings: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """The correlations ``spearman`` and ``pearson`` of the cosine similarity of pairs with human scores, float [n].

    `embeddings` are float [2n, H]: first all first sentences, then all second ones.
    """
    similarity = cosine(embeddings[: len(scores)], embeddings[len(scores) :])
    return {"spearman": spearman(scores, similarity), "pearson": pearson(scores, similarity)}


def embedding_pipeline(model, sentences, sequence_length=None, pooling=None, normalize=None):
    """The pipeline of an encoder with the shortest sequence length for these sentences, to save padding.

    `model` is a `kbert.BertEncoder` loaded with its tokenizer, or a source for `kbert.load_pretrained`.
    """
    if isinstance(model, str | os.PathLike):
        outputs = {"outputs": ("sequence_output", "pooled_output")} if pooling == "pooler" else {}
        model = load_pretrained(model, "encoder", **outputs)
    options = {"pooling": pooling, "normalize": normalize}
    pipeline = build_pipeline(model, sequence_length=sequence_length, pair=False, **options)
    longest = int(max(pipeline.tokenizer(sentences).row_lengths())) + 2  # [CLS] and [SEP]
    if sequence_length or longest >= pipeline.preprocessor.sequence_length:
        return pipeline
    return build_pipeline(model, sequence_length=longest, pair=False, **options)


def embed_sentences(pipeline, sentences: Sequence[str], batch_size: int = 32) -> tuple[np.ndarray, dict[str, float]]:
    """The embeddings of sentences, float32 [n, H], with the number of sentences and sentences per second.

    It logs how many are done.
    """
    start = time.monotonic()
    progress = PredictionProgress(len(sentences), batch_size)
    embeddings = pipeline.predict(sentences, batch_size, verbose=0, callbacks=[progress])["embedding"]
    seconds = time.monotonic() - start
    return embeddings, {"sentences": len(sentences), "sentences_per_second": len(sentences) / seconds}
