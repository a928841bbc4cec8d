"""Sends rows of a file or a command line to a server."""

import codecs
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kbert.files import parse_json


def ask(
    client, rows: Iterable[Mapping[str, Any]], signature: str = "serving_default", batch_size: int = 32
) -> Iterator[dict]:
    """The answers to rows, one dict each; the curl line of each request goes to standard error.

    Args:
        rows: dicts of column → string (choices: list of strings), all with the same columns.
        signature: to call; ``classify`` and ``regress`` are sent tf.Examples, as TensorFlow Serving requires.
        batch_size: rows of a request.
    """
    verb, rows = signature if signature in ("classify", "regress") else "predict", iter(rows)
    while batch := list(itertools.islice(rows, batch_size)):
        columns = batch if verb != "predict" else {name: [row[name] for row in batch] for name in batch[0]}
        print(client.curl(columns, signature, verb), file=sys.stderr)
        if verb == "classify":
            yield from ({"probabilities": dict(scores)} for scores in client.classify(batch, signature))
        elif verb == "regress":
            yield from ({"score": score} for score in client.regress(batch, signature))
        else:
            answers = client.predict(columns, signature)
            yield from ({name: values[number] for name, values in answers.items()} for number in range(len(batch)))


def read_json_rows(path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file; blank lines are skipped.

    Raises:
        ValueError: a line that is not an object in UTF-8, or has other keys than the first; the message names it.
    """
    columns = None
    for number, line in enumerate(path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if not line.strip():
            continue
        row = parse_json(line, f"{path}, line {number}")
        columns = columns or (sorted(row) if isinstance(row, dict) else None)
        if not isinstance(row, dict) or sorted(row) != columns:
            raise ValueError(
                f"{path}, line {number}: expected an object with {columns or 'columns'}. Received: {line.decode():.80}"
            )
        yield row
