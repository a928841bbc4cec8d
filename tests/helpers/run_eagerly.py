"""TensorFlow without tracing, where tracing would take most of a test's time."""

import contextlib


@contextlib.contextmanager
def run_eagerly():
    """Runs functions op by op: sooner than tracing for a few small batches. (What tf.data maps is traced as ever.)

    Only for tests beside others that run the same code traced.
    """
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)
