"""The format "kbert"."""

import pathlib

from kbert.weights.formats.format import Format
from kbert.weights.formats.kbert.read import FILES, is_kbert_directory, read_kbert_directory
from kbert.weights.formats.kbert.write import write_kbert_directory


class KbertFormat(Format):
    """kbert's own directory: everything that a pipeline needs, with hashes."""

    name = "kbert"
    title = f"a kbert directory ({', '.join(FILES)})"
    files = FILES
    needs_tokenizer = True
    options = ("storage_dtype",)

    def recognises(self, path):
        return is_kbert_directory(path.parent if path.is_file() else path)

    def read(self, path, vocabulary=None):
        if vocabulary is not None:
            raise ValueError("A kbert directory has a vocabulary of its own: `vocabulary` cannot replace it.")
        return read_kbert_directory(path.parent if path.is_file() else path)

    def write(self, directory, model, settings, vocabulary, *, made_by=None, storage_dtype="float32"):
        write_kbert_directory(pathlib.Path(directory), model, settings, vocabulary, made_by, storage_dtype)


FORMAT = KbertFormat()
