"""Compare kbert.SearchIndex with the exact search: time and recall by the size of the collection.

    OMP_NUM_THREADS=1 PYTHONPATH=recipes python recipes/benchmarks/search_index.py --corpus 'wiki/*.gz'

The collection is sentences of a corpus, embedded by kbert-mini, or with --random random vectors of its width. Queries
are a thousand others, asked at once and one by one. Recall is the fraction of the exact search's first ten results
that the index finds.
"""

import argparse
import json
import pathlib
import statistics
import tempfile
import time

import numpy as np
from embeddings import pairs_of

import kbert

QUERIES, K, SINGLE = 1000, 10, 20  # queries, results, and how many queries are asked one by one, too
FIRST = 101_000  # sentences of the corpus, that smaller collections are drawn from


def sentence_vectors(source, corpus, count):
    """Embeddings of `count` sentences, drawn from the first ones of a corpus that differ."""
    first = max(count, FIRST)
    texts = list(dict.fromkeys(pairs_of(corpus, "same", 2 * first)))[:first]
    np.random.default_rng(0).shuffle(texts)
    pipeline = kbert.build_pipeline(kbert.load_pretrained(source, "encoder"), sequence_length=64)
    return pipeline.predict(texts[:count], batch_size=64, verbose=0)["embedding"]


def timed(function, *arguments):
    """(seconds, result) of a call."""
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def compare(vectors, queries):
    """The figures of one collection."""
    row = {"texts": len(vectors)}
    row["build_s"], index = timed(kbert.SearchIndex, None, vectors)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "vectors.index"
        row["save_s"], _ = timed(index.save, path)
        row["load_s"], index = timed(kbert.SearchIndex.load, path)
        row["megabytes"] = path.stat().st_size / 1e6
    found = {}
    for name, collection in (("exact", vectors), ("index", index)):
        single = [timed(kbert.search, None, collection, query[np.newaxis], K)[0] for query in queries[:SINGLE]]
        row[f"{name}_single_ms"] = 1000 * statistics.median(single)
        together, found[name] = timed(kbert.search, None, collection, queries, K)
        row[f"{name}_of_many_ms"] = 1000 * together / len(queries)
    hits = [np.isin(*rows).mean() for rows in zip(found["exact"].rows, found["index"].rows, strict=True)]
    return row | {"recall@10": float(np.mean(hits))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--source", default="saved_models/kbert-mini")
    parser.add_argument("--texts", type=int, nargs="+", default=[10_000, 75_000])
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    count = max(options.texts) + QUERIES
    if options.random:
        vectors = np.random.default_rng(0).normal(size=(count, 256)).astype("float32")
    else:
        vectors = sentence_vectors(options.source, options.corpus, count)
    table = [compare(vectors[QUERIES : QUERIES + texts], vectors[:QUERIES]) for texts in options.texts]
    print(json.dumps(table, indent=2))
    if options.output:
        options.output.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
