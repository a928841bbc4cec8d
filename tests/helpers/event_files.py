"""What TensorBoard's event files hold, read by TensorFlow."""

import numpy as np
import tensorflow as tf


def read_events(log_dir):
    """(run, event) of all event files, those of a run in the order in which TensorBoard reads them."""
    for path in sorted(log_dir.rglob("*tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            yield path.parent.name, event


def read_scalars(log_dir):
    """{(run, tag): [(step, value)]} of all scalars."""
    found = {}
    for run, event in read_events(log_dir):
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                found.setdefault((run, value.tag), []).append((event.step, float(tf.make_ndarray(value.tensor))))
    return found


def tags_of(log_dir, plugin):
    """{(run, tag)} of all that a plugin of TensorBoard shows."""
    return {
        (run, value.tag)
        for run, event in read_events(log_dir)
        for value in event.summary.value
        if value.metadata.plugin_data.plugin_name == plugin
    }


def event_values(log_dir) -> list[tuple[int, str, str, object]]:
    """(step, tag, plugin, value) of all runs, by step, and within a step as they were written.

    Texts are strings, pictures arrays, scalars floats.
    """
    values = []
    for _, event in read_events(log_dir):
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            values.append((event.step, value.tag, plugin, _content(plugin, tf.make_ndarray(value.tensor))))
    return sorted(values, key=lambda value: value[0])


def _content(plugin, value):
    if plugin == "images":
        return tf.io.decode_png(value[2]).numpy()  # after width and height
    return value.ravel()[0].decode() if plugin == "text" else float(np.ravel(value)[0]) if value.size == 1 else value
