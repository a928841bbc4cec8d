"""Sends rows of a file or a command line to a server."""

import codecs
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbert.files import parse_json


def ask(client, rows: Sequence[Mapping[str, Any]], signature: str = "serving_default") -> Iterator[dict]:
    """The answers to some rows, one dict each; the curl line of the same request goes to standard error.

    Args:
        rows: dicts of column → string (choices: list of strings), all with the same columns.
        signature: to call; ``classify`` and ``regress`` are sent tf.Examples, as TensorFlow Serving requires.
    """
    verb = signature if signature in ("classify", "regress") else "predict"
    columns = rows if verb != "predict" else {name: [row[name] for row in rows] for name in rows[0]}
    print(client.curl(columns, signature, verb), file=sys.stderr)
    if verb == "classify":
        yield from ({"probabilities": dict(scores)} for scores in client.classify(rows, signature))
    elif verb == "regress":
        yield from ({"score": score} for score in client.regress(rows, signature))
    else:
        answers = client.predict(columns, signature)
        yield from ({name: values[number] for name, values in answers.items()} for number in range(len(rows)))


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
