"""The files of sentence-transformers beside a model: how hidden states become an embedding."""

import logging
import pathlib
import sys
from typing import Any

from kbert.files import read_json, write_json
from kbert.layers.embedding_pooling import POOLINGS
from kbert.pipelines.settings import ModelSettings
from kbert.weights.description import ModelDescription
from kbert.weights.formats.config_names import entry
from kbert.weights.formats.huggingface_tokenizer import CONFIG as TOKENIZER_CONFIG

_LOGGER = logging.getLogger("kbert")
_MODULES, _TRANSFORMER, _PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
_POOLING = "1_Pooling"
FILES = (_MODULES, _TRANSFORMER, _PROMPTS, _POOLING)
_FLAGS = {"mean": "mean_tokens", "max": "max_tokens", "cls": "cls_token"}  # kbert's pooling → theirs


def read_length(directory: pathlib.Path, is_kberts: bool) -> int | None:
    """The sequence length of a sentence-transformers model, or of a kbert model that another library saved.

    sentence-transformers stores it with the tokenizer since version 6, as transformers does. None: another model.
    """
    path, tokenizer = directory / _TRANSFORMER, directory / TOKENIZER_CONFIG
    if not (is_kberts or path.is_file()):
        return None
    length = entry(read_json(path), "max_seq_length", int, path) if path.is_file() else None
    if length is None and tokenizer.is_file():
        length = entry(read_json(tokenizer), "model_max_length", int, tokenizer)
    return length or sys.maxsize  # as long as the position table


def lowercases(directory: pathlib.Path) -> bool:
    """Whether sentence-transformers lowercases texts before the tokenizer."""
    path = directory / _TRANSFORMER
    return path.is_file() and entry(read_json(path), "do_lower_case", bool, path, False)


def read_pooling(directory: pathlib.Path) -> tuple[dict[str, Any], list[str]]:
    """A sentence-transformers model's ``pooling`` and ``normalize``, and lines for the report; else ({}, [])."""
    path, prompts = directory / _POOLING / "config.json", directory / _PROMPTS
    if not path.is_file():
        return {}, []
    fields = read_json(path)
    chosen = fields.get("pooling_mode")  # since version 6, a name or a list of names
    if chosen is None:
        flags = {f"pooling_mode_{flag}": name for name, flag in _FLAGS.items()}
        names = [name for name, value in fields.items() if name.startswith("pooling_mode_") and value is True]
        chosen = [flags.get(name, name.removeprefix("pooling_mode_")) for name in names]
    if isinstance(chosen, list) and len(chosen) == 1:
        [chosen] = chosen
    modules = directory / _MODULES
    kinds = []
    if modules.is_file():
        kinds = [str(module.get("type")).rpartition(".")[2] for module in read_json(modules, list)]
    settings, remarks = {"normalize": "Normalize" in kinds}, []
    if others := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        remarks.append(f"has the modules {others}, kbert has not: embeddings are those without them")
    if chosen in POOLINGS:
        settings["pooling"] = chosen
    else:
        remarks.append(f"pools it by {chosen}, which kbert does not have: choose a `pooling`")
    if prompts.is_file():
        content = read_json(prompts)
        name = entry(content, "default_prompt_name", str, prompts)
        if prompt := entry(content, "prompts", dict, prompts, {}).get(name):
            remarks.append(f"puts {prompt!r} before every text, kbert does not: put it there yourself")
    for remark in remarks:
        _LOGGER.warning("%s: sentence-transformers %s", directory, remark)
    return settings, [f"sentence-transformers {remark}" for remark in remarks]


def embeds(description: ModelDescription, settings: ModelSettings) -> dict[str, Any] | None:
    """``pooling`` and ``normalize`` of an embedding model that sentence-transformers can compute, or None."""
    fields = description.arguments if description.task == "similarity" else settings.task.options()
    if description.task not in ("encoder", "similarity") or fields["pooling"] not in _FLAGS:
        return None
    return {name: fields[name] for name in ("pooling", "normalize")}


def write_sentence_transformers(
    directory: pathlib.Path, description: ModelDescription, settings: ModelSettings
) -> None:
    """Writes the files of an embedding model, and nothing for other models."""
    own = embeds(description, settings)
    if own is None:
        return
    kinds = [("", "Transformer"), (_POOLING, "Pooling"), *([("2_Normalize", "Normalize")] if own["normalize"] else [])]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds)
    ]
    write_json(directory / _MODULES, modules)
    write_json(directory / _TRANSFORMER, {"max_seq_length": settings.sequence_length, "do_lower_case": False})
    write_json(directory / _PROMPTS, {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"})
    (directory / _POOLING).mkdir()
    modes = {f"pooling_mode_{flag}": name == own["pooling"] for name, flag in _FLAGS.items()}
    width = description.config.hidden_dim
    write_json(directory / _POOLING / "config.json", {"word_embedding_dimension": width, **modes})
