"""Rows of inputs → the same rows with a pipeline's answers, as the lines of an answer file."""

import csv
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
    """
    check_bool(overwrite, "`overwrite`")
    if output.suffix.lower() not in FORMATS:
        raise ValueError(f"Expected an output whose name ends in .jsonl or .csv. Received: {output}")
    if output.suffix.lower() == ".csv" and not pipeline.answers.fits_table:
        raise ValueError(
            f"The answers {sorted(pipeline.output)} of a {pipeline.task} model fit no table; "
            "give --output a name in .jsonl"
        )
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
        batch_size: rows per forward pass; fewer are filled up with copies of the last.

    Raises:
        ValueError: a column has the name of an answer.
    """
    padded = [*rows, *rows[-1:] * (batch_size - len(rows))]
    answers = pipeline.predict_on_batch({name: [row[column] for row in padded] for name, column in columns.items()})
    for row, result in zip(rows, pipeline.answers.to_dicts(answers), strict=False):
        if clash := set(row) & set(result):
            raise ValueError(f"columns of the input have the names of answers: {sorted(clash)}; rename them")
        yield row, result


def write_answers(file, rows: Iterable[tuple], answers, suffix: str, header: bool) -> None:
    """Writes answered rows to a text file, .jsonl or .csv by `suffix`; `header`: whether a table begins here."""
    if suffix.lower() == ".jsonl":
        for row, result in rows:
            file.write(json.dumps(row | result, ensure_ascii=False) + "\n")
        return
    writer = None
    for row, result in rows:
        cells = row | answers.table_row(result)
        if writer is None:
            writer = csv.DictWriter(file, cells)
            if header:
                writer.writeheader()
        writer.writerow(cells)
