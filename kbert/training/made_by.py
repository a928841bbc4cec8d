"""What a run was made from: its inputs by name and by content, and the runs behind its model."""

import concurrent.futures
import glob
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbert.corpus.documents import DocumentList
from kbert.corpus.records_manifest import MANIFEST as RECORDS_MANIFEST
from kbert.corpus.records_manifest import is_records
from kbert.files import sha256
from kbert.text.vocabulary import check_vocabulary
from kbert.versions import versions
from kbert.weights.formats.kbert_json import KBERT_JSON
from kbert.weights.formats.registry import recognize_format
from kbert.weights.provenance import Provenance, describe_inputs, describe_maker, stored_provenance
from kbert.weights.source import download_from_hub, local_source, snapshot_commit, split_revision
from kbert.weights.step_checkpoint import ARRAYS
from kbert.weights.step_paths import MODEL, is_step_checkpoint

if TYPE_CHECKING:
    import keras

    from kbert.text.tokenizer import BertTokenizer
    from kbert.training.run_directory import RunDirectory

_SETTINGS = ("*.json", "*.txt", "1_Pooling/*")
_MODEL_FILES = (*_SETTINGS, "*.safetensors", "*.bin", "*.index", "*.data-*-of-*", "checkpoint", ARRAYS)
_WEIGHTS = (".safetensors", ".bin", ".index")


def note_origin(model: "keras.Model", run: "RunDirectory", metrics: dict) -> None:
    """Notes on a model that a run has trained how its weights were made, for `kbert.export`."""
    if run.path is not None:
        model.provenance = stored_provenance(run.path / MODEL)
        return
    settings = {name: value for name, value in run.settings.items() if run.inputs.get(name) is None}
    made_by = {"recipe": run.recipe, "versions": versions(), "settings": settings}
    model.provenance = Provenance({"run": made_by}, metrics)


def makers(inputs: Mapping[str, object]) -> dict:
    """For arguments that are models with a known maker: what `describe_maker` says of them."""
    return {argument: maker for argument, path in _sources(inputs) if (maker := describe_maker(path)) is not None}


def identify_inputs(inputs: Mapping[str, object]) -> dict:
    """Size and SHA-256 of every file that the arguments of a run name: ``{argument: {file: {"bytes", "sha256"}}}``.

    An argument is a path of a file, of records or of a model (a directory, a prefix of a TensorFlow checkpoint, a name
    on the Hugging Face hub), a list of these, or None. Whole files are hashed, several at a time (about a second per
    GB). Of records only the manifest is read, which has the hashes of the shards; of a model its config, vocabulary and
    weights. The files of a name on the hub are named by it and the commit: ``owner/name@commit/config.json``.
    """
    files = {argument: {} for argument, value in inputs.items() if value is not None}
    for argument, source in _sources(inputs):
        files[argument] |= _named_files(source)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return {
            argument: dict(zip(named, pool.map(_identify, named.values()), strict=True))
            for argument, named in files.items()
        }


def check_outside(run: pathlib.Path, inputs: Mapping[str, object]) -> None:
    """Raises a ValueError if an input is below the directory of a run, which is about to be emptied."""
    for argument, source in _sources(inputs):
        if pathlib.Path(source).resolve().is_relative_to(run.resolve()):
            raise ValueError(
                f"{run}: --overwrite would delete an input of this run ({_flag(argument)}): {source}. Nothing was "
                "deleted. Give another --output."
            )


def _sources(inputs: Mapping[str, object]) -> list[tuple[str, str | os.PathLike]]:
    """(argument, path or name on the hub) of all that the arguments mean; a run means its model or last checkpoint."""
    values = [(argument, as_list(value)) for argument, value in inputs.items() if value is not None]
    return [(argument, local_source(each) or each) for argument, several in values for each in several]


def check_inputs(run: pathlib.Path, recorded: Mapping, now: Mapping, since: str) -> None:
    """Raises a ValueError that names the files, unless a run has the inputs that it was started with."""
    changes = []
    for argument in sorted(recorded.keys() | now.keys()):
        before = recorded.get(argument, {})
        after = now.get(argument, {})
        for file in sorted(before.keys() | after.keys()):
            if before.get(file) != after.get(file):
                change = "has changed" if file in before else "is new"
                if file not in after:
                    change = "is gone"
                changes.append(f"{file} ({_flag(argument)}) {change}")
    if changes:
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        raise ValueError(
            f"{run}: a run resumes with the inputs it was started with ({since}), but {', '.join(changes[:3])}{more}. "
            "Restore the original inputs, or start a new run with another --output."
        )


def weights_hash(model: str | os.PathLike) -> str:
    """The hash of a stored model's weights, of several files as `describe_inputs` gives it."""
    files = [file for file in _files_of(pathlib.Path(model)) if file.name != "checkpoint"]
    weights = {str(file): _identify(file) for file in files if file.suffix not in (".json", ".txt")}
    return describe_inputs({"model": weights})["model"]["sha256"]


def as_list(value: Any) -> list:
    """An argument of a run as a list: a path, or any iterable of paths."""
    is_single = isinstance(value, str | os.PathLike) or not isinstance(value, Iterable)
    return [value] if is_single else list(value)


def _identify(path: pathlib.Path) -> dict:
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def _named_files(source: str | os.PathLike) -> dict[str, pathlib.Path]:
    """{name in the record: path} of each file that a path, or a name on the hub, stands for."""
    if isinstance(source, pathlib.Path):
        return {str(file): file for file in _files_of(source)}
    directory = download_from_hub(source)
    commit = snapshot_commit(directory)
    name = f"{split_revision(source)[0]}@{commit}" if commit else source
    return {f"{name}/{file.relative_to(directory).as_posix()}": file for file in _files_of(directory)}


def _files_of(path: pathlib.Path) -> list[pathlib.Path]:
    if path.is_file() and path.suffix not in _WEIGHTS:
        return [path]
    prefix = bool(path.name) and path.with_name(path.name + ".index").is_file()
    patterns = (*_SETTINGS, f"{glob.escape(path.name)}.*") if prefix else _MODEL_FILES
    directory = path.parent if prefix or path.is_file() else path
    form = recognize_format(directory)
    has_config = any((directory / config).is_file() for config in ("config.json", "bert_config.json"))
    if not (form or has_config or is_step_checkpoint(directory)):
        if is_records(directory):
            return [directory / RECORDS_MANIFEST]
        raise FileNotFoundError(
            f"Expected a file, records or a model. Received: {str(path)!r}, a directory with other contents"
        )
    patterns += form.FILES if form and not prefix else ()
    files = {file for pattern in patterns for file in directory.glob(pattern) if file.is_file()}
    return sorted(files - {directory / KBERT_JSON})  # it records when the model was saved, which is not content


def _flag(argument: str) -> str:
    return "--" + argument.replace("_", "-")


def identify_source(source: DocumentList | str | os.PathLike | Iterable[str | os.PathLike]) -> dict | list[str]:
    """How settings name the text or records that a run learns from: their paths, or the hash of documents in memory."""
    if isinstance(source, DocumentList):
        return {"documents": len(source), "sha256": source.fingerprint()}
    return [os.fspath(path) for path in as_list(source)]


def identify_vocabulary(vocabulary: "str | os.PathLike | Sequence[str] | BertTokenizer | None") -> dict | str | None:
    """How settings name a vocabulary: its path, or the hash of its tokens."""
    if vocabulary is None:
        return None
    if isinstance(vocabulary, str | os.PathLike):
        return os.fspath(vocabulary)
    from kbert.corpus.records import vocabulary_hash  # not above: they load TensorFlow
    from kbert.text.tokenizer import BertTokenizer

    if isinstance(vocabulary, BertTokenizer):
        return {"sha256": vocabulary_hash(vocabulary.vocabulary), **vocabulary.settings()}
    check_vocabulary(vocabulary)
    return {"sha256": vocabulary_hash(list(vocabulary))}


def identify_model(source: "str | os.PathLike | keras.Model | None") -> dict | str | None:
    """How settings name a model or a pipeline: its path, or the hash of all that its training depends on."""
    if source is None:
        return None
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    model = getattr(source, "model", source)
    settings = None
    tokenizer = None
    if model is not source:
        settings, tokenizer = source.settings(), source.tokenizer
    elif model.pretrained is not None:
        settings, tokenizer = model.pretrained.settings.to_dict(), model.pretrained.tokenizer
    vocabulary = None if tokenizer is None else tokenizer.vocabulary
    facts = [model.config.to_dict(), model.dtype_policy.name, settings, vocabulary]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for weight in model.weights:
        digest.update(f"{weight.path} {weight.trainable}".encode() + weight.numpy().tobytes())
    return {"sha256": digest.hexdigest()}
