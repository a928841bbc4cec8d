"""The format "google": checkpoints of google-research/bert."""

from kbert.files import read_json, write_json
from kbert.text.vocabulary import write_vocabulary
from kbert.weights.formats.export_tensors import check_head, check_pooler, check_single_label, export_tensors
from kbert.weights.formats.format import Format
from kbert.weights.formats.google.names import CONFIG_NAMES, NAMES
from kbert.weights.formats.google.read import (
    CONFIG,
    HEAD_DROPOUT,
    PREFIX,
    VOCABULARY,
    is_google_checkpoint,
    read_google_checkpoint,
)
from kbert.weights.formats.google.slots import export_slots
from kbert.weights.formats.kbert_settings import NAME, write_kbert_settings


class GoogleFormat(Format):
    """Checkpoints of google-research/bert, optionally with the state of the `AdamW` given as ``optimizer``.

    It holds models of the tasks encoder, pretraining, masked_lm, next_sentence, classification, regression and span.
    """

    name = "google"
    title = f"Google's checkpoint ({CONFIG}, {PREFIX}.index)"
    files = (CONFIG, f"{PREFIX}.*", VOCABULARY, NAME)
    options = ("optimizer",)

    def recognises(self, path):
        return is_google_checkpoint(path)

    def read(self, path, vocabulary=None):
        return read_google_checkpoint(path, vocabulary)

    def write(self, directory, model, settings, vocabulary, *, made_by=None, optimizer=None):
        fields = CONFIG_NAMES.from_kbert(model.config)
        if getattr(model, "dropout", 0.1) != 0.1:
            fields[HEAD_DROPOUT] = model.dropout
        values = {name: value for name, (_, value) in export_tensors(NAMES, model).items()}
        check_single_label("google", model)
        check_head("google", model)
        check_pooler("google", model, needed=True, reason="BertModel in its modeling.py always has one")
        values |= {} if optimizer is None else export_slots(optimizer, model)
        write_json(directory / CONFIG, fields)
        write_kbert_settings(directory, settings)
        if vocabulary is not None:
            write_vocabulary(directory / VOCABULARY, vocabulary)
        _write_checkpoint(directory / PREFIX, values)

    def reference_outputs(self, model, path, batch):
        """By a transcription in NumPy: the original's own code needs TensorFlow 1."""
        from kbert.weights.diagnostics.google_reference import google_forward

        tensors = read_google_checkpoint(path).tensors
        outputs = google_forward(tensors.read, tensors.tensors, read_json(tensors.path.parent / CONFIG), batch)
        if model.task == "regression":
            outputs["score"] = outputs["logits"][:, 0]
        return "a NumPy transcription of google-research/bert", outputs


def _write_checkpoint(prefix, values):
    """Writes tensors from a dict of name → function that returns the tensor."""
    import tensorflow as tf

    names = sorted(values)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.convert_to_tensor(values[name]()) for name in names],
    )


FORMAT = GoogleFormat()
