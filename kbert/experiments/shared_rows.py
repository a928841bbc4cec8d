"""What all rows of a study share: their text by its content, and whether it is packed."""

import dataclasses
import inspect
import os

from kbert.corpus.corpus_files import find_files
from kbert.corpus.records_manifest import is_records
from kbert.tasks.identify import identify_model, identify_vocabulary
from kbert.tasks.pretraining.pretrain import pretrain
from kbert.tasks.pretraining.pretraining_settings import PretrainingSettings
from kbert.tasks.pretraining.row_layout import choose_packing
from kbert.tasks.pretraining.starting_model import source_tokenizer
from kbert.training.inputs import identify_inputs
from kbert.weights.load import load_pretrained
from kbert.weights.source import local_source


def decide_packing(source, pretraining) -> bool:
    """Whether the pre-trainings of a study pack their rows: what `kbert.pretrain` decides for these arguments.

    Args:
        source: of `kbert.pretrain`.
        pretraining: its other arguments, without `packed`.
    """
    fields = {field.name for field in dataclasses.fields(PretrainingSettings)}
    parameters = inspect.signature(pretrain).parameters.values()
    arguments = {one.name: one.default for one in parameters if one.default is not one.empty} | dict(pretraining)
    settings = PretrainingSettings(source=source, **{name: arguments[name] for name in arguments if name in fields})
    tokenizer = source_tokenizer(settings)
    if tokenizer is None and isinstance(settings.init, str | os.PathLike):
        tokenizer = load_pretrained(settings.init, "encoder").pretrained.tokenizer
    elif tokenizer is None:
        tokenizer = getattr(settings.init, "pretrained", settings.init).tokenizer
    return choose_packing(settings, tokenizer).packed


def identify_rows(source, pretraining) -> dict:
    """The files that all pre-trainings of a study read, by their content; vocabularies and models in memory, too."""
    records = isinstance(source, str | os.PathLike) and is_records(source)
    files = {"records": source} if records else {"corpus": find_files(source)}
    found = {}
    for name, identify in (("vocabulary", identify_vocabulary), ("init", identify_model)):
        value = pretraining.get(name)
        if isinstance(value, str | os.PathLike):
            files[name] = value if name == "vocabulary" else local_source(value) or value
        elif value is not None:
            found[name] = identify(value)
    content = {name: sorted(one["sha256"] for one in each.values()) for name, each in identify_inputs(files).items()}
    return content | found
