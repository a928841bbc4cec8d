"""Tables: CSV, TSV, JSON-lines and Arrow files as columns of cells with their line numbers."""

import ast
import contextlib
import csv
import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kbert.aliases import PathLike
from kbert.checks import check_path, is_missing, shown, warn_of_empty_texts
from kbert.errors import MissingPackage
from kbert.files import check_file, parse_json
from kbert.tasks.stored_texts import store_columns

JSON_LINES = (".jsonl", ".ndjson")
_ARROW = (".parquet", ".arrow", ".feather")
_ARROW_ROWS = 256  # of a Parquet file, in memory at once
TABLES = (".csv", ".tsv", *JSON_LINES, *_ARROW)
_SEPARATORS = (",", ";", "\t", "|")  # of a csv file, in the order in which they are tried
_LONGEST = 1 << 26  # bytes of a line, characters of a cell; csv's own limit, 131,072, is less than a document


def read_lines(path: PathLike) -> list[str]:
    """The lines of a UTF-8 file without their ends, LF or CRLF. Other breaks, such as U+2028, are text."""
    path = pathlib.Path(path)
    check_file(path, "a tagged file")
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: invalid UTF-8. Save the file as UTF-8.") from error
    return [line.removesuffix("\r") for line in text.split("\n")]


def iterate_lines(path: PathLike) -> Iterator[str]:
    """The lines of a file that may be large, or compressed. Bytes that are not UTF-8 become U+FFFD if they are few.

    Raises:
        ValueError: binary data, another encoding, an archive; a line above 8 MiB.
    """
    from kbert.corpus.corpus_files import open_texts

    texts = open_texts(path)  # a name of its own, since the file is closed with it
    name, lines = next(texts)
    if name != path:
        raise ValueError(
            f"{path}: expected a text. Received: an archive, or a spreadsheet. Unpack it, or save it as CSV."
        )
    for line in lines:
        yield line.removesuffix("\r")


def check_characters(text: str, where: str) -> str:
    """Returns the text; a ValueError if it has half a surrogate pair, which JSON can write (``"\\ud83d"``)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where}: expected characters. Received: half a surrogate pair, \\u{ord(text[error.start]):04x}, in "
            f"{text[:80]!r}"
        ) from None
    return text


class Table(dict):
    """The columns of a file or of rows in memory, {name: cells}.

    A cell is a string, in a nested column also a list or dict. `lines[i]` is the line at which row i starts. Without a
    file, `path` is None and `lines` are the numbers of the rows. `skipped` counts the rows that `read_table` skipped on
    request.
    """

    def __init__(
        self, path: PathLike | None, lines: Iterable[int], columns: Mapping[str, Sequence], skipped: int = 0
    ) -> None:
        super().__init__(columns)
        self.path = None if path is None else str(path)
        self.lines = list(lines)
        self.skipped = skipped

    def where(self, row: int) -> str:
        """The place of a row, as error messages name it."""
        return place(self.path, self.lines[row])

    def shown(self, cell: Any) -> str:
        """A cell as messages show it. Without a file, an empty one may have been None or NaN."""
        return shown(cell) if cell or self.path else "an empty cell ('', None or NaN; rows count from 0)"


def place(path: PathLike | None, number: int) -> str:
    """Where a row is, for messages: file and line, in Arrow files the row from 1, in memory the row from 0."""
    if path is None:
        return f"row {number}"
    return f"{path}, {'row' if str(path).lower().endswith(_ARROW) else 'line'} {number}"


def as_cell(value: Any, name: str, path: PathLike | None, number: int, nested: bool = False) -> Any:
    """A value of column `name` as a cell, by one rule for files and memory.

    None, null, NaN and pandas' NA are "". True is "True", as pandas writes it. 1.0 is "1", because pandas makes floats
    of integers in a column with missing values. If `nested`, lists and dicts are cells, and so is their text, as pandas
    writes it into CSV files.

    Raises:
        ValueError: another type of value, or half a surrogate pair. The message names row and column.
    """
    try:
        if isinstance(value, str):
            value = _parsed(value, name) if nested else value
        elif is_missing(value):
            value = ""
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str | int | float):
            return check_characters(str(value), repr(name))
        if not (nested and isinstance(value, list | dict)):
            raise ValueError(f"{name!r} must be a string or a number. Received: {shown(value)}")
        check_characters(json.dumps(value, ensure_ascii=False, default=str), repr(name))
        return value
    except ValueError as error:
        raise ValueError(f"{place(path, number)}: {error}") from None


def whole_number(value: Any) -> int | None:
    """The integer that a value stands for, also if pandas wrote it as 47.0. None: another value."""
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,9}(\.0*)?\s*", value):
        return int(float(value))
    whole = isinstance(value, int) and not isinstance(value, bool) or isinstance(value, float) and value.is_integer()
    return int(value) if whole else None


def _parsed(text, name):
    """The list or dict that a text stands for, as JSON or as Python writes it; other texts as they are."""
    if not re.match(r"\s*[\[{]", text):
        return text
    with contextlib.suppress(ValueError):
        return parse_json(text, name)
    with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        value = ast.literal_eval(text.strip())
        if repr(value) == text.strip():  # ['a' 'b'], as NumPy writes it, is ['ab'] to Python
            return value
    if re.match(r"""\s*[\[{]\s*['"]""", text):
        raise ValueError(f"{name!r}: expected a list or dict as JSON or Python writes it. Received: {shown(text)}")
    return text


def read_table(
    path: PathLike,
    columns: Sequence[str] | None = None,
    *,
    optional: Sequence[str] = (),
    nested: Sequence[str] = (),
    format: str | None = None,
    header: Sequence[str] | None = None,
    short_rows: str = "error",
) -> Table:
    """Reads a CSV, TSV, JSON-lines, Parquet or Arrow file, or any text file with a separator between its columns.

    The file is UTF-8, with or without a byte order mark. Its lines end in LF or CRLF. Blank lines are skipped, except
    between the rows of a csv or tsv file with one column, where they are empty cells.

    - csv: cells quoted with ``"`` where needed (RFC 4180). A quoted cell may hold line breaks. The separator is the
      first of comma, semicolon, tab and ``|`` that finds the columns in the first line.
    - tsv: tab separated, **no quoting**. A quotation mark is a character like any other, as in the GLUE files.
    - jsonl: one JSON object per line.
    - arrow: Parquet and Arrow files (needs pyarrow), read some rows at a time. Numbers of Hugging Face's ClassLabels
      become their names.

    A column of more than 64 million characters is kept in a temporary file (`kbert.tasks.stored_texts.StoredTexts`).

    Args:
        columns: the names to read. None: all (jsonl: the keys of the first object).
        optional: with `columns`, further names, read if they exist. A jsonl object without one of them has an empty
            cell.
        nested: names of columns whose cells may be lists or dicts.
        format: "csv", "tsv", "jsonl" or "arrow". None: by the extension (.tsv .jsonl .ndjson .parquet .arrow .feather),
            with any other csv.
        header: the column names of a csv or tsv file that has no header line.
        short_rows: for a csv or tsv row with too few cells, "error" or "skip" (and count it in ``Table.skipped``).
    """
    path = check_path(path, "read: `path`")
    rows = _rows(path, _format(path, format), columns, header, optional)
    names, wanted, rows = _with_header(path, rows, columns, optional, header)
    at = [(names.index(name), name, name in nested) for name in wanted]
    skipped = []
    lines = []

    def cells():
        for number, row in _whole_rows(path, names, rows, short_rows, skipped):
            lines.append(number)
            yield [as_cell(row[i], name, path, number, is_nested) for i, name, is_nested in at]

    columns = dict(zip(wanted, store_columns(cells(), len(at)), strict=True))
    return Table(path, lines, columns, len(skipped))


def iterate_table(path: PathLike, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Reads a table a row at a time: (line, column → cell) of each, as `read_table` does."""
    path = pathlib.Path(path)
    rows = _rows(path, _format(path, None), columns)
    names, wanted, rows = _with_header(path, rows, columns, (), None)
    at = {name: names.index(name) for name in wanted}
    for number, row in _whole_rows(path, names, rows, "error", []):
        yield number, {name: as_cell(row[i], name, path, number) for name, i in at.items()}


def table_columns(path: PathLike) -> list[str]:
    """The names of the columns of a table: the first line's cells or keys."""
    path = check_path(path, "read: `path`")
    return _with_header(path, _rows(path, _format(path, None), None), None, (), None)[0]


def iterate_json_lines(path: PathLike) -> Iterator[tuple[int, dict]]:
    """(line number, object) of each line of a JSON-lines file."""
    for number, line in enumerate(_lines(pathlib.Path(path)), start=1):
        line = line.removesuffix("\n")
        if not line.strip():
            continue
        value = parse_json(line, f"{path}, line {number}")
        if not isinstance(value, dict):
            raise ValueError(f"{path}, line {number}: expected one JSON object per line. Received: {shown(line)}")
        yield number, value


def check_texts(table: Table, names: Sequence[str], *, may_all_be_empty: bool = False) -> None:
    """Logs a warning for each column of texts with empty ones. If all are empty, it is an error by default."""
    if not any(cell.strip() for name in names for cell in table[name]):
        if may_all_be_empty:
            return
        rows = f"{len(table.lines)} empty ones" if len(table.lines) > 1 else "an empty one"
        raise ValueError(
            f"{table.where(0)}: expected texts in {' and '.join(map(repr, names))}. Received: {rows}; is it another "
            "column that holds them?"
        )
    for name in names:
        if empty := [row for row, cell in enumerate(table[name]) if not cell.strip()]:
            warn_of_empty_texts(name, len(empty), len(table.lines), table.where(empty[0]))


def _format(path, format):
    if format is None:
        suffix = path.suffix.lower()
        others = dict.fromkeys(JSON_LINES, "jsonl") | dict.fromkeys(_ARROW, "arrow") | {".tsv": "tsv"}
        format = others.get(suffix, "csv")
        if suffix not in TABLES and path.is_file():
            _check_is_text(path)
    return format


def _check_is_text(path):
    """Raises a ValueError if a file is no table of text: a spreadsheet, Parquet, a JSON array."""
    with open(path, "rb") as file:
        start = file.read(4096)
    is_utf16 = start.startswith((b"\xff\xfe", b"\xfe\xff"))  # of which `_lines` says more
    if (b"\0" in start and not is_utf16) or start.startswith(b"PK") or start.lstrip()[:1] in (b"[", b"{"):
        raise ValueError(
            f"Expected a table as text (.csv, .tsv, .jsonl). Received: {str(path)!r}, which has another format. "
            "Read it with pandas and give the DataFrame."
        )


def _lines(path) -> Iterator[str]:
    """The lines of a file with their line feeds (no other breaks, such as U+2028); it must not be empty."""
    check_file(path, "a table (.csv, .tsv, .jsonl, .parquet, .arrow)")
    is_empty = True
    with open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST + 1), b""), start=1):
            if len(line) > _LONGEST:
                raise ValueError(f"{path}, line {number}: expected at most {_LONGEST:,} bytes. Received: a longer line")
            if number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise ValueError(
                    f"{path}, line 1: this file is UTF-16; save it as UTF-8 (in a spreadsheet: 'CSV UTF-8')."
                )
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: invalid UTF-8. Received: byte 0x{error.object[error.start]:02x}. Save the "
                    "file as UTF-8."
                ) from error
            is_empty = is_empty and not text.strip()
            yield text
    if is_empty:
        raise ValueError(f"{path} is empty: expected a table with at least one row.")


def _tsv_rows(path) -> Iterator[tuple[int, list[str] | None]]:
    for number, line in enumerate(_lines(path), start=1):
        line = line.removesuffix("\n").removesuffix("\r")
        yield number, line.split("\t") if line.strip() or "\t" in line else None


def _csv_rows(path, separator) -> Iterator[tuple[int, list[str] | None]]:
    line = ""

    def lines():
        nonlocal line
        for line in _lines(path):  # noqa: UP028 - `line` tells a blank line from a quoted cell of spaces
            yield line

    reader = csv.reader(lines(), strict=True, delimiter=separator)
    start = 1
    while True:
        limit = csv.field_size_limit(_LONGEST)  # for this row alone: the limit is the process's
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {start}: not a CSV row ({error}). A cell that holds {separator!r}, a quotation "
                'mark or a line break must be in quotation marks ("…"), with those inside it doubled.'
            ) from error
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        yield start, cells if line.strip() or separator in line else None
        start = reader.line_num + 1


def _without_blank_lines(rows) -> Iterator[tuple[int, list[str]]]:
    """The rows without blank lines, which are None. Between the rows of one column, a blank line is an empty cell."""
    columns = 0
    blank = []
    for number, cells in rows:
        if cells is None:
            blank.append(number)
            continue
        if columns == 1:
            yield from ((line, [""]) for line in blank)
        blank = []
        columns = columns or len(cells)
        yield number, cells


def _rows(path, format, columns, header=None, optional=()) -> Iterator[tuple[int, list]]:
    """(line number, values) of the header and of all rows. The number of a header that is not a line is 0."""
    if format == "arrow":
        return _arrow_rows(path, columns, optional)
    if format == "jsonl":
        return _json_rows(path, columns, optional)
    return _without_blank_lines(
        _tsv_rows(path) if format == "tsv" else _csv_rows(path, _separator(path, columns, header))
    )


def _separator(path, columns, header):
    """The first separator that finds the columns in the first line, else the one that finds most cells."""
    separator = _SEPARATORS[0]
    most = 1
    for candidate in _SEPARATORS:
        try:
            _, cells = next(_without_blank_lines(_csv_rows(path, candidate)), (1, []))
        except ValueError:  # as of "text";"label" under a comma; of another fault, reading will tell
            continue
        if header is not None:
            is_right = len(cells) == len(header)
        else:
            is_right = columns is not None and set(columns) <= {name.strip() for name in cells}
        if is_right:
            return candidate
        if len(cells) > most:
            separator = candidate
            most = len(cells)
    return separator


def _with_header(path, rows, columns, optional, header):
    """(names of all columns, names to read, the other rows)."""
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{path} is empty: expected a table with at least one row.")
    if header is None:
        names = [name.strip() if first[0] else name for name in first[1]]
    else:
        names = list(header)
        rows = itertools.chain([first], rows)
    wanted = names if columns is None else [*columns, *(name for name in optional if name in names)]
    check_columns(place(path, first[0]) if first[0] else str(path), names, wanted)
    return names, wanted, rows


def _whole_rows(path, names, rows, short_rows, skipped):
    """The rows with a cell for each name. `skipped` receives the numbers of the rows that are skipped."""
    is_empty = True
    for number, cells in rows:
        if short_rows == "skip" and len(cells) < len(names):
            skipped.append(number)
            continue
        if len(cells) != len(names):
            raise ValueError(
                f"{place(path, number)}: expected {len(names)} cells ({', '.join(names)}). "
                f"Received: {len(cells)} cells. Does a cell hold an unquoted separator?"
            )
        is_empty = False
        yield number, cells
    if is_empty:
        raise ValueError(f"{path} has a header and no rows: expected at least one.")


def check_columns(where: str, names: Sequence[str], wanted: list[str]) -> None:
    """Raises a ValueError unless each wanted name is among the columns' names once."""
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"{where}: expected the columns {wanted}. Received: {shown(names, 500)}; missing: {missing}.")
    if twice := sorted({name for name in wanted if names.count(name) > 1}):
        raise ValueError(
            f"{where}: expected each column once. Received: {shown(names, 500)}; more than once: {shown(twice)}."
        )


def _json_rows(path, columns, optional) -> Iterator[tuple[int, list]]:
    names = list(next(iterate_json_lines(path))[1] if columns is None else dict.fromkeys(columns))
    keys = set().union(*(value for _, value in iterate_json_lines(path))) if optional else ()
    more = [name for name in optional if name in keys]
    yield 0, [*names, *more]
    for number, value in iterate_json_lines(path):
        check_columns(place(path, number), list(value), names)
        yield number, [value.get(name) for name in (*names, *more)]


def _arrow_rows(path, columns, optional) -> Iterator[tuple[int, list]]:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise MissingPackage(f"{path} needs pyarrow: pip install pyarrow", name="pyarrow") from error
    check_file(path, "a table")
    try:
        if path.suffix.lower() == ".parquet":
            file = pyarrow.parquet.ParquetFile(path)
            schema = file.schema_arrow
            batches = None
        else:
            source = pyarrow.memory_map(str(path))
            try:
                file = pyarrow.ipc.open_file(source)
                batches = map(file.get_batch, range(file.num_record_batches))
            except pyarrow.ArrowInvalid:
                file = pyarrow.ipc.open_stream(source)  # as Hugging Face's datasets write it
                batches = file
            schema = file.schema
        names = schema.names
        if columns is not None and set(columns) <= set(names):
            names = [name for name in names if name in (*columns, *optional)]
        yield 0, names
        features = _features(schema.metadata)
        number = 0
        for batch in batches or file.iter_batches(batch_size=_ARROW_ROWS, columns=names):
            for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                number += 1
                yield number, [_label_name(value, features.get(name)) for name, value in zip(names, row, strict=True)]
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _features(metadata):
    """The features that Hugging Face's datasets store in the metadata of a schema."""
    stored = (metadata or {}).get(b"huggingface")
    return json.loads(stored).get("info", {}).get("features", {}) if stored else {}


def _label_name(value, feature):
    """The name of a ClassLabel's number, or of each one in a list. -1 is not a label."""
    if not isinstance(feature, dict) or value is None:
        return value
    if isinstance(value, list):
        return [_label_name(item, feature.get("feature")) for item in value]
    if feature.get("_type") != "ClassLabel":
        return value
    return None if value == -1 else feature["names"][value]
