"""What TensorBoard's event files hold, read by TensorFlow."""

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
