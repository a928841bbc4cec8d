"""Rows of inputs → the same rows with a pipeline's answers, as the lines of an answer file."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kbert.checks import check_bool, check_positive

FORMATS = (".jsonl", ".csv")


def check_output(pipeline, output, overwrite: bool) -> None:
    """Checks that answers can be written to a file; call it before long work.

    Raises:
        ValueError: a name that ends otherwise; a table for answers that fit none.
        FileExistsError: the file exists, and may not be replaced.
        IsADirectoryError: it is a directory.
    """
    check_bool(overwrite, "`overwrite`")
    if output.suffix.lower() not in FORMATS:
        raise ValueError(f"Expected an output whose name ends in .jsonl or .csv. Received: {output}")
    if output.suffix.lower() == ".csv" and not pipeline.answers.fits_table:
        raise ValueError(
            f"The answers {sorted(pipeline.output)} of a {pipeline.task} model fit no table; "
            "give --output a name in .jsonl"
        )
    if output.is_dir():
        raise IsADirectoryError(f"Expected a file for the answers. Received: {output}, which is a directory")
    if output.exists() and not overwrite:
        raise FileExistsError(f"{output} exists; --overwrite replaces it")


def rows_at_once(pipeline, batch_size: int) -> int:
    """The rows of a batch: `batch_size`, of an export at most what it answers at once."""
    (batch_size,) = check_positive("predict_file", batch_size=batch_size).values()
    return min(batch_size, getattr(pipeline, "max_rows", batch_size))


def answered_rows(
    pipeline, rows: Sequence[dict[str, Any]], columns: Mapping[str, str], batch_size: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(row, answer) of each row of a batch. Batches are always full, so that the model is traced only once.

    Args:
        pipeline: `kbert.Pipeline` or `kbert.serving.ExportedPipeline`.
        rows: at most `batch_size`.
        columns: input of the pipeline → column of the rows.
        batch_size: rows per forward pass; fewer are filled up with empty ones.

    Raises:
        ValueError: a column has the name of an answer.
    """
    batch = {name: [row[column] for row in rows] for name, column in columns.items()}
    for values in batch.values():
        values.extend([_emptied(values[-1])] * (batch_size - len(rows)))
    answers = pipeline.predict_on_batch(batch)
    for row, result in zip(rows, pipeline.answers.to_dicts(answers), strict=False):
        if clash := set(row) & set(result):
            raise ValueError(f"columns of the input have the names of answers: {sorted(clash)}; rename them")
        yield row, result


def _emptied(value):
    """An input of the same kind without text: "" for a text, a list of them for choices."""
    return [""] * len(value) if isinstance(value, list | tuple) else ""


def answer_lines(rows: Iterable[tuple], answers, suffix: str, header: bool) -> bytes:
    """The lines of answered rows, .jsonl or .csv by `suffix`; `header`: whether a table begins here."""
    if suffix.lower() == ".jsonl":
        return "".join(json.dumps(row | result, ensure_ascii=False) + "\n" for row, result in rows).encode()
    file, writer = io.StringIO(newline=""), None
    for row, result in rows:
        cells = row | answers.table_row(result)
        if writer is None:
            writer = csv.DictWriter(file, cells)
            if header:
                writer.writeheader()
        writer.writerow(cells)
    return file.getvalue().encode()
