"""The tokenizer of a Hugging Face directory: vocabulary and settings, from whichever files exist; written again."""

import logging
import pathlib
import reprlib
from collections.abc import Mapping
from typing import Any

from kbert.aliases import PathLike
from kbert.files import read_json, write_json
from kbert.text.vocabulary import SPECIAL_TOKENS, check_vocabulary, read_vocabulary, write_vocabulary
from kbert.weights.formats.checkpoint import NO_VOCABULARY, StoredTokenizer, case_remark, looks_cased
from kbert.weights.formats.config_names import entry

_LOGGER = logging.getLogger("kbert")
VOCABULARY = "vocab.txt"
TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
_ADDED = "added_tokens.json"
FILES = (VOCABULARY, TOKENIZER, CONFIG)
_MAX_WORD_LENGTH = 100  # characters; the original has 200
_PARTS = {"model": dict, "added_tokens": list}  # of tokenizer.json
_CLASSES = (None, "BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
_SPECIAL = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_TOKENS, strict=True))


def read_huggingface_tokenizer(directory: PathLike, vocabulary: PathLike | None = None) -> StoredTokenizer:
    """Reads `vocab.txt` or, without it, `tokenizer.json`; settings from `tokenizer_config.json`, then `tokenizer.json`.

    Source: transformers' BertTokenizer, whose own arguments (in `tokenizer_config.json`) override `tokenizer.json`.
    """
    directory = pathlib.Path(directory)
    config = _optional(directory / CONFIG)
    fast = _optional(directory / TOKENIZER)
    fast |= {key: entry(fast, key, kind, directory / TOKENIZER, kind()) for key, kind in _PARTS.items()}
    if vocabulary is None and (reason := _unlike_bert(config, fast)) is not None:
        return _without_strings(reason)
    tokens = _vocabulary_of(fast, directory) if vocabulary is None else read_vocabulary(vocabulary)
    if tokens is None:
        return StoredTokenizer(None, remarks=(NO_VOCABULARY,))
    added, literal = _added_tokens(config, fast, directory)
    remarks = [] if vocabulary is not None else _append(tokens, added)
    _check_names(config, directory / CONFIG)
    settings = _settings(config, fast)
    if "lowercase" not in settings:
        settings["lowercase"] = not looks_cased(tokens)
        remarks.append(case_remark(not settings["lowercase"]))
    known = set(tokens).difference(SPECIAL_TOKENS)
    own = [name for name in dict.fromkeys([*literal, *added.values()]) if name in known and name == name.strip()]
    if own:
        from kbert.text.special_tokens import MOST  # not above: it loads TensorFlow

        found = [token for token in own if token in literal]
        if len(found) > MOST:
            return _without_strings(
                f"it has {len(found)} special tokens of its own, and kbert reads at most {MOST} in texts"
            )
        others = _no_words([token for token in own if token not in literal], tokens, settings)
        others, lost = others[: MOST - len(found)], others[MOST - len(found) :]
        if found or others:
            settings["special_tokens_in_text"] = found + others
        if lost:
            _LOGGER.warning("%s: kbert does not find these added tokens in texts: %s", directory, lost)
        if settings["lowercase"] and (spelled := [token for token in others if token.lower() != token.upper()]):
            said = "%s: transformers finds these added tokens in upper and lower case, kbert only as written: %s"
            _LOGGER.warning(said, directory, spelled)
    return StoredTokenizer(tokens, settings, tuple(remarks))


def _without_strings(reason: str) -> StoredTokenizer:
    return StoredTokenizer(None, remarks=(f"{reason}: the model takes token ids, but no strings",))


def _unlike_bert(config: dict, fast: dict) -> str | None:
    """Why kbert's BertTokenizer cannot replace this tokenizer, or None."""
    name = config.get("tokenizer_class")
    if name not in _CLASSES:
        return f"tokenizer_class {name} is not a WordPiece tokenizer that kbert has"
    if _flag(config.get("do_basic_tokenize")) is False:
        return "do_basic_tokenize is false, which kbert does not have"
    kind = fast["model"].get("type", "WordPiece")
    if kind != "WordPiece":
        return f"{TOKENIZER} is a {kind} tokenizer, not WordPiece"
    for part, expected in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
        if part in fast and (found := _part(fast[part], "type")) != expected:
            return f"{TOKENIZER} has the {part} {found}, not {expected}"
    if _part(fast.get("normalizer"), "clean_text") is False:
        return f"{TOKENIZER} keeps control characters (clean_text is false), which kbert does not"
    return None


def _vocabulary_of(fast: dict, directory: pathlib.Path) -> list[str] | None:
    """The tokens in vocab.txt or, without it, tokenizer.json. ValueError where the two disagree: one was changed."""
    path, file = directory / TOKENIZER, directory / VOCABULARY
    ids = entry(fast["model"], "vocab", dict, path, {})
    if file.is_file():
        tokens = read_vocabulary(file)
        for token, i in ids.items():
            if type(i) is int and 0 <= i < len(tokens) and tokens[i] != (token.strip() or token):
                raise ValueError(
                    f"{file}, line {i + 1}: expected {token!r}, which has this id in {TOKENIZER}. Received: "
                    f"{tokens[i]!r}. One of the two files is of another model or was changed: replace it, or delete it."
                )
        return tokens
    if not path.is_file():
        return None
    if not all(type(i) is int for i in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise ValueError(f"{path}: expected a vocabulary with the ids 0 … {len(ids) - 1}, each once. Received: others")
    tokens = [token.strip() or token for token in sorted(ids, key=ids.get)]  # as `read_vocabulary` reads vocab.txt
    check_vocabulary(tokens, source=str(path))
    return tokens


def _added_tokens(config: dict, fast: dict, directory: pathlib.Path) -> tuple[dict[int, str], list[str]]:
    """The tokens that were added to a trained tokenizer, by id, and those that texts have only as they are written."""
    decoder = entry(config, "added_tokens_decoder", dict, directory / CONFIG, {})
    sources = {
        TOKENIZER: [(_part(token, "id"), token) for token in fast["added_tokens"]],
        CONFIG: [(int(i) if i.isdecimal() else i, token) for i, token in decoder.items()],
        _ADDED: [(i, {"content": token}) for token, i in _optional(directory / _ADDED).items()],
    }
    added, literal = {}, []
    for name, pairs in sources.items():
        for i, token in pairs:
            text = _part(token, "content")
            if type(i) is not int or type(text) is not str:
                raise ValueError(
                    f"{directory / name}: every token that was added must have a number and a text. Received: {token}"
                )
            added[i] = text
            if _part(token, "special") or _part(token, "normalized") is False:
                literal.append(text)
    more = config.get("additional_special_tokens") or ()
    return added, [*literal, *(_part(token, "content") or token for token in more)]


def _append(tokens: list[str], added: dict[int, str]) -> list[str]:
    """Appends the added tokens that have embeddings, but no line in vocab.txt; returns lines for the report."""
    present, first = set(tokens), len(tokens)
    while (token := added.get(len(tokens))) is not None and token not in present:
        present.add(token)
        tokens.append(token)
    new = tokens[first:]
    return [f"tokens added after training, appended to the vocabulary: {new}"] if new else []


def _no_words(added: list[str], tokens: list[str], settings: dict[str, Any]) -> list[str]:
    """Those of these tokens that kbert's tokenizer splits, as they are no words in the letter case of the model."""
    if not added:
        return []
    from kbert.text.tokenizer import BertTokenizer  # not above: it loads TensorFlow

    pieces = BertTokenizer(tokens, **settings)(added).to_list()
    return [token for token, ids in zip(added, pieces, strict=True) if ids != [tokens.index(token)]]


def _optional(path: pathlib.Path) -> dict:
    return read_json(path) if path.is_file() else {}


def _part(value, key):
    return value.get(key) if isinstance(value, dict) else None


def _check_names(config: dict, path: pathlib.Path) -> None:
    for name, expected in _SPECIAL.items():
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if value not in (None, expected):
            raise ValueError(f"{path}: kbert's {name} is {expected!r}. Received: {reprlib.repr(value)}")


def _settings(config: dict, fast: dict) -> dict[str, Any]:
    normalizer = fast.get("normalizer")
    if _part(normalizer, "type") != "BertNormalizer":  # a vocabulary is given
        normalizer = {}
    settings = {"max_word_length": fast["model"].get("max_input_chars_per_word", _MAX_WORD_LENGTH)}
    for argument, name, name_in_normalizer in (
        ("lowercase", "do_lower_case", "lowercase"),
        ("strip_accents", "strip_accents", "strip_accents"),
        ("split_on_cjk", "tokenize_chinese_chars", "handle_chinese_chars"),
    ):
        for content, key in ((config, name), (normalizer, name_in_normalizer)):
            value = _flag(content.get(key))
            if key in content and (value is not None or argument == "strip_accents"):  # null: as lowercase
                settings[argument] = value
                break
    return settings


def _flag(value):
    """1 and 0, which older versions of transformers take too, as a bool; null says nothing."""
    return bool(value) if type(value) is int and value in (0, 1) else value


def write_huggingface_tokenizer(
    directory: pathlib.Path, settings: Mapping[str, Any], vocabulary: list[str], length: int, num_segments: int
) -> None:
    """Writes the files of a tokenizer that reads texts of up to `length` tokens for a model of so many segments."""
    write_vocabulary(directory / VOCABULARY, vocabulary)
    write_json(directory / CONFIG, _tokenizer_config(settings, length, num_segments))
    write_json(directory / TOKENIZER, _tokenizer(settings, vocabulary))


def _special_tokens_in_text(settings) -> list[str]:
    read = settings["special_tokens_in_text"]
    return [token for token in read if token not in SPECIAL_TOKENS] if isinstance(read, list) else []


def _tokenizer_config(settings: Mapping[str, Any], length: int, num_segments: int) -> dict:
    own = _special_tokens_in_text(settings)
    segments = ["token_type_ids"] if num_segments > 1 else []
    return {
        # Not BertTokenizer, which ignores the longest word of tokenizer.json. This class omits what is not listed.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", *segments, "attention_mask"],
        "do_lower_case": settings["lowercase"],
        "strip_accents": settings["strip_accents"],
        "tokenize_chinese_chars": settings["split_on_cjk"],
        "model_max_length": length,
        **_SPECIAL,
        **({"additional_special_tokens": own} if own else {}),
    }


def _tokenizer(settings: Mapping[str, Any], vocabulary: list[str]) -> dict:
    """The tokenizers library's file: the original's algorithm, with this model's maximum word length."""
    ids = {token: i for i, token in enumerate(vocabulary)}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": ids[token], "content": token, **special}
            for token in sorted({*SPECIAL_TOKENS, *_special_tokens_in_text(settings)}, key=ids.get)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings["split_on_cjk"],
            "strip_accents": settings["strip_accents"],
            "lowercase": settings["lowercase"],
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", ids["[CLS]"]], "sep": ["[SEP]", ids["[SEP]"]]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": settings["max_word_length"],
            "vocab": ids,
        },
    }
