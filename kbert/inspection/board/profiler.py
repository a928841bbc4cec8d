"""Profiles of a few steps, for the Profile tab of TensorBoard (package xprof)."""


def profiled_steps(steps) -> tuple[int, int]:
    """The (first, last) step to profile, from an int, "20", "20:25" or a pair of ints."""
    try:
        parts = steps.split(":") if isinstance(steps, str) else [steps] if type(steps) is int else list(steps)
        first, last = int(parts[0]), int(parts[-1])
        if len(parts) > 2 or not 1 <= first <= last:
            raise ValueError
    except (TypeError, ValueError, AttributeError, IndexError):
        raise ValueError(
            f'`profile` must be steps to profile, the first of a run being 1, as "20:25". Received: {steps!r}'
        ) from None
    return first, last


class Profiler:
    """Profiles some steps of a run: device, host and input pipeline."""

    def __init__(self, log_dir, steps):
        self.log_dir, (self.first, self.last) = str(log_dir), profiled_steps(steps)
        self.is_running = False

    def before(self, step: int) -> None:
        if not self.is_running and self.first <= step <= self.last:
            self.is_running = True
            self._tool().start_trace(self.log_dir) if _is_jax() else self._tool().start(self.log_dir)

    def after(self, step: int) -> None:
        if self.is_running and step >= self.last:
            self.stop()

    def stop(self) -> None:
        """Writes what was recorded, if anything is being recorded."""
        if self.is_running:
            self.is_running = False
            self._tool().stop_trace() if _is_jax() else self._tool().stop()

    def _tool(self):
        if _is_jax():
            import jax

            return jax.profiler
        import tensorflow as tf

        return tf.profiler.experimental


def _is_jax():
    import keras  # not above: recipes read their flags without waiting for it

    return keras.backend.backend() == "jax"
