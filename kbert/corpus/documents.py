"""Text files, or texts in memory → documents, each a list of sentences.

Files hold plain lines, running prose, or WikiExtractor's output.
"""

import collections
import functools
import glob
import hashlib
import html
import itertools
import json
import logging
import os
import re
import typing
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from kbert.checks import shown
from kbert.corpus.corpus_files import find_files, is_parquet, open_texts
from kbert.errors import MissingPackage
from kbert.options import CorpusFormat

_LOGGER = logging.getLogger("kbert")
FORMATS = typing.get_args(CorpusFormat)
_SAMPLE_LINES, _SAMPLE_CHARACTERS = 2000, 1 << 18
_FEW = 10  # a tenth of the texts, or fewer, with more than half of the documents: a warning
_NARROWEST_COLUMN = 40  # characters; shorter lines of equal length are probably sentences
_LONGEST_WRAPPED = 120  # a longer line was not wrapped by hand or by an editor: it is a paragraph
_LONGEST_BLOCK = 1 << 20  # characters of prose without an empty line that are split at once
_LONGEST_DOCUMENT = 20_000  # sentences; a longer one (a dump in one file) becomes several documents
_LONGEST_TEXT = 1 << 23  # characters, likewise
_PARQUET_ROWS = 256  # held in memory
FINISHED = re.compile(r"[.!?…。！？؟।][\"'”’»›)\]）」』]*$")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_HEADING_WORDS = 4  # some versions of WikiExtractor end headings with a full stop
_MARKUP = re.compile(r"[*#|!{}:;=•·]|[-–—] |Section::|BULLET::")  # lists, tables, headings
_LONGEST_NAME = 255  # bytes of a part of a path


def read_documents(
    patterns: str | os.PathLike | Iterable[str | os.PathLike], format: str = "auto", language: str = "en"
) -> Iterator[list[str]]:
    """Reads a corpus of any size, one document at a time.

    Args:
        patterns: path or glob pattern, or a list of them. A file is plain or compressed text, a tar or zip archive of
            texts, or Parquet (needs pyarrow), where each row of the column ``text`` is a document of prose. A list of
            strings is taken for the texts themselves if they have line breaks, or spaces and the end of a sentence.
        format: "lines": one sentence per line, an empty line between documents, as in the original's input. "prose":
            running text, an empty line between paragraphs, lines wrapped or not. Each file is a document.
            "wikiextractor": the prose in `<doc …>` elements, without titles, headings, list items, tables. "auto":
            decided for each file by `detect_format`.
        language: ISO 639-1 code of the text's language, for splitting prose into sentences.

    Returns:
        Iterator of documents: non-empty lists of non-empty sentences (str). A document ends where its file ends, and
        after 20,000 sentences or 8 million characters. If the tags of a WikiExtractor file do not match (an unclosed
        document, text outside of documents), all text is kept, and a UserWarning names the file and line.

    Raises:
        TypeError: `patterns` is something else.
        ValueError: at once, an unknown `format` or what `find_files` refuses. While reading, a damaged file or a line
            above 8 MiB. At the end, no sentences.

    Example::

        for sentences in read_documents(["wiki/*.gz", "novels.tar.gz"]):
            ...
    """
    documents = texts_as_documents(patterns)
    if documents is not patterns:
        return iter(documents)
    return iterate_documents(find_files(patterns), format, language)


def iterate_documents(
    files: Sequence[str | os.PathLike], format: str = "auto", language: str = "en"
) -> Iterator[list[str]]:
    """As `read_documents`, for files that `find_files` has found, in the given order.

    At the end it logs how many of them had which format.
    """
    check_format(format)
    return _documents(files, format, language)


def check_format(format: str) -> None:
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}. Received: {format!r}")


def file_documents(
    path: str | os.PathLike, format: str = "auto", language: str = "en", texts: list[tuple] | None = None
) -> Iterator[list[str]]:
    """The documents of one file, possibly none; they do not depend on other files of the corpus.

    `texts`, a list, gets the name, the format and the number of documents of each text.
    """
    for name, reader, parts in _texts(path, format):
        count = 0
        for lines in parts:
            for document in gather_documents(_READERS[reader](lines, language, name)):
                count += 1
                yield document
        if texts is not None:
            texts.append((str(name), reader, count))


def _texts(path, format):
    """(name, format, parts) of each text of a file; a part is lines of which documents are made."""
    if is_parquet(path):
        yield path, "prose" if format == "auto" else format, (text.split("\n") for text in _parquet_texts(path))
        return
    for name, lines in open_texts(path):
        if format == "auto":
            sample = _sample(lines)
            yield name, detect_format(sample), [itertools.chain(sample, lines)]
        else:
            yield name, format, [lines]


def _parquet_texts(path):
    """The texts of the column ``text``, with one batch of rows in memory; rows without one are left out."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        message = f"{path} is a Parquet file, which needs pyarrow: pip install pyarrow"
        raise MissingPackage(message, name="pyarrow") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if "text" in names:
                for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=["text"]):
                    yield from filter(None, batch.column(0).cast(pyarrow.string()).to_pylist())
                return
    except (ValueError, OSError) as error:  # pyarrow's own errors derive from these
        raise ValueError(f"{path} is damaged, or its column `text` holds no text: {error}") from error
    raise ValueError(f"{path}: expected a column `text`, with a document in each row. Received: the columns {names}")


def prose_sentences(text: str, language: str = "en") -> list[str]:
    """The sentences of running text, as a file of the format "prose" gives them."""
    return list(_read_prose(text.split("\n"), language, None))


def raise_no_sentences(files: Sequence[str | os.PathLike], format: str) -> NoReturn:
    raise ValueError(
        f"The corpus contains no sentences. Read: {len(files)} file(s), the first {files[0]}, as {format}."
    )


def detect_format(lines: Iterable[str]) -> str:
    """Detects the format of a text from its first lines.

    Args:
        lines: such as the first 2,000 of the text.

    Returns:
        "wikiextractor" if the text starts with `<doc `. "prose" if more than a tenth of the lines hold several
        sentences, or are wrapped at a full column in mid-sentence. Otherwise "lines".

    Example::

        detect_format(["He left. It was late.", "", "Nobody saw him. It rained."])  # "prose"
    """
    lines = [line.strip() for line in lines]
    full = [line for line in lines if line]
    if full and full[0].startswith("<doc "):
        return "wikiextractor"
    width = sorted(map(len, full))[len(full) * 9 // 10] if full else 0
    prose = sum(
        bool(line) and (len(split_sentences(line)) > 1 or _is_wrapped(line, following, width))
        for line, following in itertools.pairwise([*lines, ""])
    )
    return "prose" if prose > len(full) / 10 else "lines"


def _is_wrapped(line, following, width):
    """Whether a line was wrapped: its sentence continues on the next line, whose first word would not have fitted."""
    return (
        width >= _NARROWEST_COLUMN
        and not FINISHED.search(line)
        and following[:1].islower()
        and len(line) + 1 + len(following.split()[0]) >= width
    )


def _documents(files, format, language):
    texts = []
    for path in files:
        yield from file_documents(path, format, language, texts)
    end_of_documents(files, format, texts)


def end_of_documents(files: Sequence, format: str, texts: Sequence[tuple]) -> None:
    """Raises ValueError if files that were all read gave no document, and logs what `texts` says of them."""
    if not any(count for _, _, count in texts):
        raise_no_sentences(files, format)
    report_formats(texts)


def report_formats(texts: Sequence[tuple]) -> None:
    """Logs how many texts were read in which format, and warns if few of them have most of the documents.

    A text that is taken for lines by mistake may have a hundred documents, where as prose it would be one. `texts`
    holds (name, format, number of documents) of each.
    """
    counts = collections.Counter(reader for _, reader, _ in texts)
    total = sum(count for *_, count in texts)
    formats = ", ".join(f"{count:,} as {reader}" for reader, count in sorted(counts.items()))
    _log_once(logging.INFO, f"{len(texts):,} texts ({formats}): {total:,} documents")
    largest = sorted(texts, key=lambda text: (-text[2], text[0]))[: len(texts) // _FEW]
    fraction = sum(count for *_, count in largest) / total
    if fraction > 0.5:
        names = ", ".join(f"{name} as {reader}" for name, reader, _ in largest[:3])
        _log_once(
            logging.WARNING,
            f"{len(largest):,} of {len(texts):,} texts have {fraction:.1%} of the documents; the most: {names}. If a "
            "format is wrong, name the right one (`format`, --format): documents of a few sentences make poor pairs.",
        )


@functools.cache
def _log_once(level, message):
    """Logs a message once, though files are read again in each epoch."""
    _LOGGER.log(level, "%s", message)


def _sample(lines):
    sample, characters = [], 0
    for line in lines:
        sample.append(line)
        characters += len(line)
        if len(sample) >= _SAMPLE_LINES or characters >= _SAMPLE_CHARACTERS:
            break
    return sample


def gather_documents(sentences: Iterable[str | None]) -> Iterator[list[str]]:
    """Documents from a stream of sentences in which None ends a document. Long documents are divided."""
    document, size = [], 0
    for sentence in sentences:
        if sentence is not None:
            document.append(sentence)
            size += len(sentence)
        if document and (sentence is None or len(document) >= _LONGEST_DOCUMENT or size >= _LONGEST_TEXT):
            yield document
            document, size = [], 0
    if document:
        yield document


def _read_lines(lines, language, name):
    for line in lines:
        yield line.strip() or None


def _read_prose(lines, language, name):
    for paragraph in _paragraphs(lines):
        yield from split_sentences(paragraph, language)


def _paragraphs(lines):
    """Joins wrapped lines. A paragraph ends at an empty line, and at a line that is too long to be a wrapped one."""
    block, characters = [], 0
    for line in lines:
        line = line.strip()
        if block and (not line or max(len(line), len(block[-1])) > _LONGEST_WRAPPED or characters > _LONGEST_BLOCK):
            yield " ".join(block)
            block, characters = [], 0
        if line:
            block.append(line)
            characters += len(line)
    if block:
        yield " ".join(block)


def _read_wikiextractor(lines, language, name):
    opened = warned = 0  # line numbers of the open document and of the warning, from 1
    title = False
    for number, line in enumerate(lines, 1):
        fault = None
        if line.startswith("<doc "):
            fault = opened and f"a <doc>, but the one of line {opened:,} is not closed"
            opened, title = number, True
            yield None
        elif line.startswith("</doc>"):
            fault = not opened and "a </doc> without its <doc>"
            opened, title = 0, False
            yield None
        elif title:
            title = not line.strip()  # it may follow empty lines
        else:
            fault = not opened and line.strip() and "text outside of <doc> and </doc>"
            yield from _prose_sentences(line, language)
        if fault and not warned:
            warned = number
            _warn_of_tags(name, number, fault)
    if opened and not warned:
        _warn_of_tags(name, opened, "a <doc> that is not closed at the end of the file, which may be truncated")


def _warn_of_tags(name, line, fault):
    message = f"{name}, line {line:,}: {fault}. All text is kept; further faults of this file are not reported."
    warnings.warn(message, stacklevel=3)


def _prose_sentences(line, language):
    """The complete sentences of a paragraph; none of a heading or list item."""
    if "<" in line:
        line = _TAG.sub(" ", line)
    if "&" in line:
        line = html.unescape(line)
    line = line.strip()
    if not line or _MARKUP.match(line) or (line.endswith(".") and line.count(" ") < _HEADING_WORDS and len(line) < 60):
        return []
    sentences = split_sentences(line, language)
    return [s for s in sentences if FINISHED.search(s) and (" " in s or not s.isascii())]  # "12." is not a sentence


_READERS = {"lines": _read_lines, "prose": _read_prose, "wikiextractor": _read_wikiextractor}


def texts_as_documents(source: Any) -> Any:
    """A list of documents or texts as a `DocumentList`; any other source as it is.

    A document is a list of sentences, a text is running prose. Strings are texts, not paths, if none of them is a file
    and one has a line break, a part too long for a file's name, or spaces and the end of a sentence. So a mistyped file
    name stays a path.
    """
    if not isinstance(source, list | tuple):
        return source
    if any(isinstance(item, list | tuple) for item in source):
        return DocumentList(source)
    texts = [item for item in source if isinstance(item, str)]
    if len(texts) < len(source) or not any(map(_is_text, texts)) or any(map(_is_file, texts)):
        return source
    return DocumentList(map(prose_sentences, texts))


def _is_text(string):
    is_name = "\n" not in string and max(map(len, os.fsencode(string).split(b"/"))) <= _LONGEST_NAME
    return not is_name or (" " in string.strip() and FINISHED.search(string.strip()) is not None)


def _is_file(string):
    if "\n" in string or len(string) > 4096:  # longer than any path
        return False
    return os.path.exists(string) or bool(glob.has_magic(string) and glob.glob(string))


class DocumentList:
    """Documents in memory, divided as `read_documents` divides a file: no empty lines, long documents cut.

    Args:
        documents: iterable of documents, each a list of sentences (str).

    Raises:
        TypeError: a document is not a list of str.
        ValueError: there is no sentence.

    Example::

        DocumentList([["A first sentence.", "A second one."], ["Another document."]])
    """

    def __init__(self, documents: Iterable[Sequence[str]]):
        sentences = []  # None after each document
        for number, document in enumerate(documents):
            is_list = isinstance(document, list | tuple)
            if wrong := [sentence for sentence in document if not isinstance(sentence, str)] if is_list else [document]:
                raise TypeError(
                    f"documents[{number}]: expected a document as a list of sentences (str). "
                    f"Received: {shown(wrong[0])}"
                )
            sentences += [stripped for sentence in document if (stripped := sentence.strip())] + [None]
        self._documents = list(gather_documents(sentences))
        if not self._documents:
            raise ValueError("Expected documents with at least one sentence. Received: none")

    def __iter__(self) -> Iterator[list[str]]:
        return iter(self._documents)

    def __len__(self):
        return len(self._documents)

    def __repr__(self):
        return f"<DocumentList: {len(self):,} documents in memory>"

    def fingerprint(self) -> str:
        """SHA-256 of the documents, as 64 hexadecimal digits."""
        digest = hashlib.sha256()
        for document in self:
            digest.update(json.dumps(document).encode())
        return digest.hexdigest()


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Splits a paragraph of prose into its sentences, stripped; only white space is lost.

    Line ends count as spaces. `language` (ISO 639-1) decides the abbreviations and the full stops. sentencex
    (Wikimedia's segmenter, about 300 languages) does the work: abbreviations ("Mr.", "U.S.", "e.g."), initials,
    decimals and quoted speech do not end a sentence. tensorflow_text's StateBasedSentenceBreaker breaks after every
    full stop ("Mr. | Smith", "3. | 5 million") and is about fifty times slower.
    """
    import sentencex

    sentences = sentencex.segment(language, " ".join(text.split()))
    return [sentence for sentence in map(str.strip, sentences) if sentence]
