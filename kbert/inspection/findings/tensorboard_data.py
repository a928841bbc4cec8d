"""What an inspection found → a run of TensorBoard: text, images, histograms, scalars, projector."""

import pathlib
from collections.abc import Mapping

import numpy as np

from kbert.files import write_directory
from kbert.inspection.board.event_file import INSPECTION
from kbert.inspection.findings.inspection import Inspection
from kbert.inspection.findings.projector import write_projector
from kbert.inspection.findings.views import MEANING, markdown_texts, pictures

# The directory in the log directory. Tags begin with "model", so that Time Series, which sorts them, still opens on
# accuracy and loss; no two dashboards have a tag in common, which only one of them would show.
RUN = INSPECTION


def write_tensorboard(found: Inspection, log_dir, drawn: Mapping[str, np.ndarray] | None = None) -> pathlib.Path:
    """Writes, or replaces, the run `inspection` and returns its directory.

    In Scalars and Histograms the step is the layer, 0 the embeddings. `drawn` may hold
    `pictures(found)`, so that nothing is drawn twice.
    """
    run = pathlib.Path(log_dir) / RUN
    write_directory(run, lambda directory: _write(found, directory, pictures(found) if drawn is None else drawn))
    return run


def _write(found, directory, drawn):
    import tensorflow as tf

    if found.embeddings:
        write_projector(directory, found.embeddings)  # before the events, by which TensorBoard finds the run
    writer = tf.summary.create_file_writer(str(directory))
    with writer.as_default(step=0):
        for name, text in markdown_texts(found).items():
            tf.summary.text(f"model tables/{name}", text)
        for name, pixels in drawn.items():
            group, _, part = name.partition("/")
            tf.summary.image(f"model {name}", pixels[None], description=MEANING.get(part) if group == "heads" else None)
        for name, values in found.statistics.items():
            for layer, heads in enumerate(values, start=1):
                tf.summary.histogram(f"model head statistics/{name}", heads, step=layer, description=MEANING[name])
        for name, probes in found.probes.items():
            for part in ("accuracy", "macro_f1", "control_accuracy", "selectivity"):
                for layer, value in enumerate(getattr(probes, part)):
                    tf.summary.scalar(f"model probe scores/{name}/{part}", value, step=layer)
    writer.close()
