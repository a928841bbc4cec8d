"""Pictures that runs have written into TensorBoard's data."""

from screenshots.pictures import Pictures, write

PICTURES = {  # log directory and tag
    "probes_pos": ("probes-logs/inspection", "model probes/pos"),
    "confusion_matrix": ("sst2/logs/examples", "predictions/confusion matrix"),
    "reliability": ("sst2/logs/examples", "predictions/calibration"),
}


def make(pictures: Pictures, names) -> None:
    """Copies these pictures, with fewer colours; of a tag the last one."""
    for name in names:
        log_dir, tag = PICTURES[name]
        write(name, _last_image(pictures.runs / log_dir, tag))


def _last_image(log_dir, tag):
    from tensorboard.backend.event_processing.event_accumulator import TENSORS, EventAccumulator

    events = EventAccumulator(str(log_dir), {TENSORS: 0})
    events.Reload()
    return events.Tensors(tag)[-1].tensor_proto.string_val[2]  # after width and height
