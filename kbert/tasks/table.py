"""Tables of text: CSV, TSV and JSON-lines files as columns of strings with their line numbers."""

import csv
import json
import pathlib
from collections.abc import Iterator, Sequence

from kbert.files import parse_json
from kbert.tasks.text_files import check_characters

_FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_MAX_CELL = 2**31 - 1  # the csv module's own limit, 131,072 characters, is less than one long document


class Table(dict):
    """The columns of a file, ``{name: list of str}``; `lines[i]` is the line at which row i starts.

    Without a file, path None, `lines` are the numbers of the rows.

    `skipped` counts the rows that `read_table` skipped on request.

    Example::

        table = Table("reviews.csv", [2, 3], {"text": ["good", "bad"], "label": ["1", "0"]})
        table["text"][1], table.where(1)  # ("bad", "reviews.csv, line 3")
    """

    def __init__(self, path, lines, columns, skipped=0):
        super().__init__(columns)
        self.path = None if path is None else str(path)
        self.lines = list(lines)
        self.skipped = skipped

    def where(self, row: int) -> str:
        """File and line of a row, as error messages name them; without a file its number from 0."""
        return f"row {self.lines[row]}" if self.path is None else f"{self.path}, line {self.lines[row]}"


def read_table(
    path,
    columns: Sequence[str] | None = None,
    *,
    optional: Sequence[str] = (),
    format: str | None = None,
    header: Sequence[str] | None = None,
    short_rows: str = "error",
) -> Table:
    """Reads a CSV, TSV or JSON-lines file.

    The file is UTF-8, with or without a byte order mark; its lines end in LF or CRLF; blank lines are skipped.

    - csv: comma separated, cells quoted with ``"`` where needed (RFC 4180); a quoted cell may hold line breaks.
    - tsv: tab separated, **no quoting**: a quotation mark is a character like any other, as in the GLUE files.
    - jsonl: one JSON object per line; numbers keep their digits as written; true and false become strings.

    Args:
        path: the file.
        columns: the names to read; others are ignored. None: all (jsonl: the keys of the first object).
        optional: with `columns`, further names, read if they exist; a jsonl object without one of them, or with null,
            has an empty cell.
        format: "csv", "tsv" or "jsonl". None: by the extension (.csv .tsv .jsonl .ndjson).
        header: the column names of a csv or tsv file that has no header line. None: the first line names them.
        short_rows: how to treat a csv or tsv row with too few cells: "error"; "skip": it is skipped and counted in
            ``Table.skipped``; "fill": its missing cells are empty.

    Returns:
        A `Table`.

    Raises:
        FileNotFoundError: no such file.
        ValueError: unknown format, empty file, no rows, a missing column, a row with a different number of cells than
            the header, broken quoting, invalid UTF-8 or JSON; the message names file and line.

    Example::

        table = read_table("reviews.csv", ["text", "label"])
        table["text"]  # ["It is a charming journey.", ...]
    """
    path = pathlib.Path(path)
    if format is None:
        format = _FORMATS.get(path.suffix.lower())
    if format not in ("csv", "tsv", "jsonl"):
        raise ValueError(
            f"A table is a .csv, .tsv or .jsonl file; rename it, or give `format`. Received: {str(path)!r}, {format=}"
        )
    text = _read_text(path)
    if format == "jsonl":
        return _from_objects(path, _json_lines(path, text), columns, optional)
    rows = _csv_rows(path, text) if format == "csv" else _tsv_rows(text)
    return _from_rows(path, rows, columns, optional, header, short_rows)


def read_json_lines(path, *, as_written: bool = True) -> list[tuple[int, dict]]:
    """(line number, object) of each line of a JSON-lines file; numbers are strings if `as_written`.

    Raises:
        FileNotFoundError: no such file.
        ValueError: an empty file, invalid UTF-8, a line that is not a JSON object; the message names file and line.
    """
    path = pathlib.Path(path)
    return list(_json_lines(path, _read_text(path), as_written))


def _read_text(path):
    if not path.is_file():
        raise FileNotFoundError(f"Expected a table (.csv, .tsv, .jsonl). Received: {str(path)!r}, which is not a file.")
    content = path.read_bytes()
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError(f"{path}, line 1: this file is UTF-16; save it as UTF-8 (in a spreadsheet: 'CSV UTF-8').")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: invalid UTF-8. Received: byte 0x{content[error.start]:02x}. Save the file as UTF-8."
        ) from error
    if not text.strip():
        raise ValueError(f"{path} is empty: expected a table with at least one row.")
    return text


def _tsv_rows(text) -> Iterator[tuple[int, list[str]]]:
    # str.splitlines would also break at form feeds, U+0085 and U+2028, which are text
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if line.strip():
            yield number, line.split("\t")


def _csv_rows(path, text) -> Iterator[tuple[int, list[str]]]:
    lines = text.split("\n")
    last = lines.pop()
    reader = csv.reader([line + "\n" for line in lines] + ([last] if last else []), strict=True)
    limit = csv.field_size_limit(_MAX_CELL)
    start = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {start}: not a CSV row ({error}). A cell that holds a comma, a quotation mark or a line "
            'break must be in quotation marks ("…"), with those inside it doubled.'
        ) from error
    finally:
        csv.field_size_limit(limit)


def _from_rows(path, rows, columns, optional, header, short_rows):
    rows = list(rows)
    if header is None:
        number, names = rows.pop(0)
        names = [name.strip() for name in names]
    else:
        number, names = rows[0][0], list(header)
    wanted = names if columns is None else [*columns, *(name for name in optional if name in names)]
    _check_columns(f"{path}, line {number}", names, wanted)
    found = len(rows)
    if short_rows == "skip":
        rows = [(number, cells) for number, cells in rows if len(cells) >= len(names)]
    elif short_rows == "fill":
        rows = [(number, cells + [""] * (len(names) - len(cells))) for number, cells in rows]
    if not rows:
        raise ValueError(f"{path} has a header and no rows: expected at least one.")
    for number, cells in rows:
        if len(cells) != len(names):
            raise ValueError(
                f"{path}, line {number}: expected {len(names)} cells ({', '.join(names)}). "
                f"Received: {len(cells)} cells. Does a cell hold an unquoted separator?"
            )
    at = {name: names.index(name) for name in wanted}
    columns = {name: [cells[i] for _, cells in rows] for name, i in at.items()}
    return Table(path, [n for n, _ in rows], columns, found - len(rows))


def _check_columns(where, names, wanted):
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(f"{where}: expected the columns {wanted}. Received: {names}; missing: {missing}.")
    twice = sorted({name for name in wanted if names.count(name) > 1})
    if twice:
        raise ValueError(f"{where}: expected each column once. Received: {names}; more than once: {twice}.")


def _json_lines(path, text, as_written=True) -> Iterator[tuple[int, dict]]:
    digits = {"parse_int": str, "parse_float": str} if as_written else {}  # a label 1.0 stays "1.0"
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        value = parse_json(line, f"{path}, line {number}", **digits)
        if not isinstance(value, dict):
            raise ValueError(f"{path}, line {number}: expected one JSON object per line. Received: {line[:80]!r}")
        yield number, value


def _from_objects(path, objects, columns, optional):
    objects = list(objects)
    wanted = list(objects[0][1]) if columns is None else list(columns)
    more = [name for name in optional if any(name in value for _, value in objects)]
    table = {name: [] for name in (*wanted, *more)}
    for number, value in objects:
        where = f"{path}, line {number}"
        _check_columns(where, list(value), wanted)
        for name, column in table.items():
            is_empty = name in more and value.get(name) is None
            column.append("" if is_empty else _json_cell(value[name], f"{where}: {name!r}"))
    return Table(path, [number for number, _ in objects], table)


def _json_cell(cell, where):
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        raise ValueError(f"{where} must be a string or a number. Received: {json.dumps(cell)[:80]}")
    return check_characters(cell, where)
