"""The vocabulary file: one token per line; the line number (from 0) is the id."""

import os
from collections.abc import Sequence

from kbert.checks import check_path
from kbert.files import atomic_file, check_file, read_small

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    """Reads and checks a ``vocab.txt``.

    As in the original, white space around a token is dropped, and an empty line is a token that
    occurs in no text. A byte order mark and blank lines at the end are dropped too.

    Raises:
        TypeError: no path.
        FileNotFoundError: no such file.
        ValueError: not UTF-8, more than 64 MiB, or rejected by `check_vocabulary`.

    Example::

        tokens = read_vocabulary("vocab.txt")
        tokens.index("[MASK]")
    """
    path = check_path(path, "read_vocabulary: `path`")
    check_file(path, "a vocabulary, a text file with one token per line")
    try:
        text = read_small(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"The vocabulary {str(path)!r} is not UTF-8: {error}. Convert it to UTF-8 first.") from error
    # Only "\n" ends a line: a vocabulary may hold U+2028 or U+0085 as tokens, at which str.splitlines would split.
    lines = text.rstrip("\r\n").split("\n")
    tokens = [line.strip() or line.rstrip("\r") for line in lines]
    check_vocabulary(tokens, source=str(path))
    return tokens


def write_vocabulary(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Writes a ``vocab.txt`` atomically."""
    path = check_path(path, "write_vocabulary: `path`")
    check_vocabulary(tokens)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        file.writelines(f"{token}\n" for token in tokens)


def check_vocabulary(tokens: Sequence[str], source: str = "the vocabulary given") -> None:
    """Checks that `tokens` can be a BERT vocabulary; errors name the source and the line (from 1).

    A dict or a set is refused, since its order says nothing about ids. So is what a file does not
    give back: an empty token at the end, and white space around a token.
    """
    if not isinstance(tokens, Sequence) or isinstance(tokens, str | bytes):
        raise ValueError(
            f"{source}: expected the tokens in the order of their ids, as a list, or the path of a vocab.txt. "
            f"Received: {type(tokens).__name__}"
        )
    first_line = {}
    for line, token in enumerate(tokens, start=1):
        where = f"{source}, line {line} (id {line - 1})"
        if not isinstance(token, str):
            raise ValueError(f"{where}: a token must be a str. Received: {token!r}")
        if not token and line == len(tokens):
            raise ValueError(f"{where}: the last token is empty, and would be lost in a file. Expected a token.")
        if "\n" in token or "\r" in token:
            raise ValueError(f"{where}: a token cannot contain a line break. Received: {token!r}")
        if token != (token.strip() or token):
            raise ValueError(
                f"{where}: the white space around {token!r} is lost in a file. Expected {token.strip()!r}."
            )
        if token and token in first_line:  # the original reads empty lines, and no word is looked up there
            raise ValueError(
                f"{where}: the token {token!r} is also on line {first_line[token]}. Every token must occur once: "
                "remove one of them (this changes the ids of all later tokens)."
            )
        first_line[token] = line
    missing = [token for token in SPECIAL_TOKENS if token not in first_line]
    if missing:
        raise ValueError(
            f"{source}: {len(first_line)} tokens, but without {', '.join(missing)}. A BERT vocabulary needs "
            f"{', '.join(SPECIAL_TOKENS)}: add what is missing, or learn a vocabulary: kbert vocabulary."
        )


def resolve_settings(settings: dict) -> dict:
    """`BertTokenizer.settings` without defaults; tokenizers of one vocabulary are equal if these agree."""
    strip_accents = settings["strip_accents"]
    return {**settings, "strip_accents": settings["lowercase"] if strip_accents is None else strip_accents}


def check_same_tokenizer(name: str, own: tuple[Sequence[str], dict], other: tuple[Sequence[str], dict]) -> None:
    """Raises ValueError unless texts have the tokenizer of the model that is trained on them.

    `own` and `other` are (vocabulary, `BertTokenizer.settings`) of the model and of the texts.
    `name` is for the message, such as "pretrain: the records".
    """
    (own_tokens, made), (tokens, received) = own, other
    if list(own_tokens) != list(tokens):
        raise ValueError(
            f"{name} must have the vocabulary of `init`, whose embeddings are in its order. Received: "
            f"{len(tokens):,} tokens, which are not the {len(own_tokens):,} of `init`"
        )
    made = resolve_settings(made)
    received = resolve_settings(received)
    if different := [f"{key}={received[key]!r} instead of {made[key]!r}" for key in made if made[key] != received[key]]:
        raise ValueError(f"{name} must have the tokenizer settings of `init`. Received: {', '.join(different)}")
