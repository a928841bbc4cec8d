"""The format "kerashub"."""

from kbert.weights.formats.format import Format
from kbert.weights.formats.kbert_settings import NAME
from kbert.weights.formats.kerashub.read import (
    CONFIG,
    PREPROCESSOR,
    TASK,
    TOKENIZER,
    is_kerashub_preset,
    read_kerashub_preset,
)
from kbert.weights.formats.kerashub.weights_file import WEIGHTS
from kbert.weights.formats.kerashub.write import write_kerashub_preset


class KerasHubFormat(Format):
    """Presets of KerasHub. KerasHub itself is imported to write one, and to read the weights of older Keras."""

    name = "kerashub"
    title = f"a KerasHub preset ({CONFIG}, {WEIGHTS})"
    files = (CONFIG, TASK, PREPROCESSOR, TOKENIZER, "metadata.json", "*.weights.h5", "assets", NAME)

    def recognises(self, path):
        return is_kerashub_preset(path.parent if path.is_file() else path)

    def read(self, path, vocabulary=None):
        return read_kerashub_preset(path.parent if path.is_file() else path, vocabulary)

    def write(self, directory, model, settings, vocabulary, *, made_by=None):
        write_kerashub_preset(directory, model, settings, vocabulary)

    def reference_outputs(self, model, path, batch):
        from kbert.weights.formats.kerashub.reference import kerashub_outputs

        return kerashub_outputs(model, path, batch)


FORMAT = KerasHubFormat()
