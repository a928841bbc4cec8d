"""English prose from the Python installation: documentation topics and docstrings.

A corpus for a first run: nothing is downloaded or imported (sources are parsed, never run).
"""

import ast
import importlib.util
import pathlib
import re
import sysconfig
import zlib
from collections.abc import Iterator

from kbert.corpus.documents import split_sentences

STANDARD_LIBRARY = "python"
_SKIPPED_PARTS = {"test", "tests", "testing", "__pycache__", "site-packages", "_vendor", "vendor", "idlelib", "lib2to3"}
_CODE_LINE = re.compile(r"\s*(>>>|\.\.\.|```|~~~|\$ |@|\.\. |:\w+.*:)")
_LIST_MARK = re.compile(r"^\s*([-*•]|\d+[.)])\s+")
_ARGUMENT = re.compile(r"^\s*\*{0,2}`{0,2}[A-Za-z_][\w, .*]*`{0,2}(\s*\([^)]*\))?\s*:\s+")  # "name (type): description"
_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Returns?|Yields?|Raises?|Notes?|Examples?|Usage|Attributes)\s*:?\s+(?=[A-Z`])"
)
_WORD = re.compile(r"[A-Za-z]+")


def installed_documents(libraries: tuple[str, ...], limit: int) -> Iterator[tuple[str, str, list[str]]]:
    """(library, module, sentences) of modules whose docstrings hold prose, in a fixed shuffled order.

    ``"python"`` means the standard library and its documentation topics. A library that is not installed is skipped,
    and so is a sentence that was yielded before. After `limit` sentences the rest of a library is not read.
    """
    seen: set[str] = set()
    for library in libraries:
        count = 0
        for module, texts in _module_texts(library):
            sentences = [s for text in texts for s in prose_sentences(text) if s not in seen]
            seen.update(sentences)
            count += len(sentences)
            if sentences:
                yield library, module, sentences
            if count >= limit:
                break


def prose_sentences(text: str) -> list[str]:
    """The English sentences of a docstring; code, signatures, tables and headings are skipped."""
    sentences = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.splitlines()
        if any(_CODE_LINE.match(line) for line in lines):
            continue
        for block in _blocks(lines):
            sentences += [s for s in split_sentences(block) if _is_prose(s)]
    return sentences


def _blocks(lines: list[str]) -> list[str]:
    """Joins wrapped lines; a list item or an argument's description starts a new block."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        bare = _LIST_MARK.sub("", line)
        described = _ARGUMENT.sub("", bare)
        if bare != line or described != bare:
            blocks.append([])
        blocks[-1].append(described.strip())
    return [_SECTION.sub("", " ".join(block)) for block in blocks if block]


def _is_prose(sentence: str) -> bool:
    words = _WORD.findall(sentence)
    letters = sum(map(len, words))
    return (
        len(words) >= 5
        and sentence[0].isupper()
        and sentence[-1] in ".!?"
        and letters >= 0.72 * len(sentence)
        and len(sentence) <= 600
    )


def _module_texts(library: str) -> Iterator[tuple[str, list[str]]]:
    """(module, docstrings) of every source file of a library, in a shuffled order."""
    if library == STANDARD_LIBRARY:
        from pydoc_data import topics

        for name in sorted(topics.topics):
            yield f"topics.{name}", [topics.topics[name]]
        root = pathlib.Path(sysconfig.get_paths()["stdlib"])
        files = [path for path in root.rglob("*.py") if "pydoc_data" not in path.parts]
    else:
        spec = importlib.util.find_spec(library)
        if spec is None or not spec.submodule_search_locations:
            return
        root = pathlib.Path(next(iter(spec.submodule_search_locations)))
        files = list(root.rglob("*.py"))
    for path in sorted(files, key=lambda path: zlib.crc32(path.relative_to(root).as_posix().encode())):
        parts = path.relative_to(root).with_suffix("").parts
        if _SKIPPED_PARTS.isdisjoint(parts) and not parts[-1].endswith("_test"):
            docstrings = _docstrings(path)
            if docstrings:
                yield ".".join((library, *parts)), docstrings


def _docstrings(path: pathlib.Path) -> list[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # a template or a file for another Python version
        return []
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented))
    return [text for text in texts if text]
