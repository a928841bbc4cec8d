"""What the original computes from a Google checkpoint, by a transcription: its own code needs TensorFlow 1."""

from kbert.files import read_json
from kbert.weights.diagnostics.google_reference import google_forward
from kbert.weights.formats.google.read import CONFIG, read_google_checkpoint


def google_outputs(model, path, batch):
    """See `kbert.weights.formats.format.Format.reference_outputs`."""
    tensors = read_google_checkpoint(path).tensors
    outputs = google_forward(tensors.read, tensors.tensors, read_json(tensors.path.parent / CONFIG), batch)
    if model.task == "regression":
        outputs["score"] = outputs["logits"][:, 0]
    return "a NumPy transcription of google-research/bert", outputs
