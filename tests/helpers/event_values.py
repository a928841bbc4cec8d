"""What is in the event files of a TensorBoard directory."""

import pathlib

import numpy as np
import tensorflow as tf


def event_values(directory) -> list[tuple[int, str, str, object]]:
    """(step, tag, plugin, value) of all runs below a directory, by step, and within a step as they were written.

    Texts are strings, pictures arrays, scalars floats.
    """
    found = []
    for path in sorted(pathlib.Path(directory).rglob("*tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                plugin = value.metadata.plugin_data.plugin_name
                found.append((event.step, value.tag, plugin, _content(plugin, tf.make_ndarray(value.tensor))))
    return sorted(found, key=lambda one: one[0])


def _content(plugin, value):
    if plugin == "images":
        return tf.io.decode_png(value[2]).numpy()  # after width and height
    return value.ravel()[0].decode() if plugin == "text" else float(np.ravel(value)[0]) if value.size == 1 else value
