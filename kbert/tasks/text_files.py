"""The lines of a text file, and a check of its strings."""

import pathlib
from collections.abc import Iterator

from kbert.corpus.corpus_files import open_texts
from kbert.files import similar_names


def read_lines(path) -> list[str]:
    """The lines of a UTF-8 file without their ends, LF or CRLF. Other breaks, such as U+2028, are text."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected a tagged file. Received: {str(path)!r}, which is not a file{similar_names(path)}"
        )
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: invalid UTF-8. Save the file as UTF-8.") from error
    return [line.removesuffix("\r") for line in text.split("\n")]


def iterate_lines(path) -> Iterator[str]:
    """The lines of a file that may be large, or compressed. Bytes that are not UTF-8 become U+FFFD if they are few.

    Raises:
        ValueError: binary data, another encoding, an archive; a line above 8 MiB.
    """
    texts = open_texts(path)  # a name of its own, since the file is closed with it
    name, lines = next(texts)
    if name != path:
        raise ValueError(
            f"{path}: expected a text. Received: an archive, or a spreadsheet. Unpack it, or save it as CSV."
        )
    for line in lines:
        yield line.removesuffix("\r")


def check_characters(text: str, where: str) -> str:
    """Returns the text, or raises a ValueError that begins with `where` if it has half a surrogate pair.

    JSON can write one (``"\\ud83d"``), but it is not a character.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{where}: expected characters. Received: half a surrogate pair, \\u{ord(text[error.start]):04x}, in "
            f"{text[:80]!r}"
        ) from None
    return text
