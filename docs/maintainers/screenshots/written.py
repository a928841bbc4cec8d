"""Pictures that runs have written themselves, as files or into TensorBoard's data."""

from screenshots.pictures import Pictures, write

PICTURES = {  # file, or log directory and tag
    "probes_pos": "probes/pictures/probes-pos.png",
    "confusion_matrix": ("sst2/logs/examples", "predictions/confusion matrix"),
    "reliability": ("sst2/logs/examples", "predictions/calibration"),
}


def make(pictures: Pictures, names) -> None:
    """Copies these pictures, with fewer colours; of a tag the last one."""
    for name in names:
        found = PICTURES[name]
        if isinstance(found, str):
            write(name, (pictures.runs / found).read_bytes())
        else:
            write(name, _last_image(pictures.runs / found[0], found[1]))


def _last_image(log_dir, tag):
    from tensorboard.backend.event_processing.event_accumulator import TENSORS, EventAccumulator

    events = EventAccumulator(str(log_dir), {TENSORS: 0})
    events.Reload()
    return events.Tensors(tag)[-1].tensor_proto.string_val[2]  # after width and height
