"""TensorFlow without tracing, where tracing would take most of a test's time."""

import contextlib
import functools


@contextlib.contextmanager
def run_eagerly():
    """Runs functions op by op: sooner than tracing for a few small batches.

    What tf.data maps is traced as ever, and AdamW's update of a variable is one operation: its 14 took a fifth of a
    step.

    Only for tests beside others that run the same code traced.
    """
    import tensorflow as tf

    from kbert.optim import adamw

    plain, adamw._plain = adamw._plain, _update
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)
        adamw._plain = plain


@functools.cache
def _update(decay, beta_1, beta_2, epsilon):
    """Stands for `kbert.optim.adamw._plain`; traced once for float32 variables of all shapes."""
    import tensorflow as tf

    from kbert.optim.adamw import _new_values
    from kbert.text.normalizer import traced_once

    constants = {"decay": decay, "beta_1": beta_1, "beta_2": beta_2, "eps": epsilon}

    def update(weight, momentum, velocity, gradient, scale, learning_rate, correction):
        return _new_values(weight, momentum, velocity, gradient, scale, learning_rate, correction, **constants)

    traced = traced_once(update, *[tf.TensorSpec(None, tf.float32)] * 7)
    return lambda *values: (traced if values[0].dtype == tf.float32 else update)(*values)
