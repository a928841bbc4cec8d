"""The format "google"."""

from kbert.weights.formats.format import Format
from kbert.weights.formats.google.read import CONFIG, PREFIX, VOCABULARY, is_google_checkpoint, read_google_checkpoint
from kbert.weights.formats.google.write import write_google_checkpoint
from kbert.weights.formats.kbert_settings import NAME


class GoogleFormat(Format):
    """Checkpoints of google-research/bert, optionally with the optimizer's state."""

    name = "google"
    title = f"Google's checkpoint ({CONFIG}, {PREFIX}.index)"
    files = (CONFIG, f"{PREFIX}.*", VOCABULARY, NAME)
    options = ("optimizer",)

    def recognises(self, path):
        return is_google_checkpoint(path)

    def read(self, path, vocabulary=None):
        return read_google_checkpoint(path, vocabulary)

    def write(self, directory, model, settings, vocabulary, *, made_by=None, optimizer=None):
        write_google_checkpoint(directory, model, settings, vocabulary, optimizer)

    def reference_outputs(self, model, path, batch):
        from kbert.weights.formats.google.reference import google_outputs

        return google_outputs(model, path, batch)


FORMAT = GoogleFormat()
