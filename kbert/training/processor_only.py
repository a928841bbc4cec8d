"""Keeps this process off accelerators, for programs that run beside a training."""


def processor_only() -> None:
    """Hides GPUs from TensorFlow, which would take all their memory when it first computes something.

    Call it before anything is computed. Where TensorFlow already uses them, nothing changes.
    """
    import tensorflow as tf

    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError:
        pass  # it has been initialised
