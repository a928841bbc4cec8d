"""Decides whether a run may change its number of steps."""

import numpy as np


def check_extension(run, there, now, done: int, steps_there: int, steps_now: int) -> None:
    """Raises FileExistsError unless the steps done would have been the same in a run of `steps_now` steps.

    They are the same if their learning rates are: always with a constant rate, but only during the warm-up with a
    linear decay, whose slope depends on the number of steps.

    Args:
        run: path of the run, for the message.
        there, now: functions of steps (ints [n]) that give their learning rates: the schedules of both.
        steps_there, steps_now: of the run as it was started, and as it is requested.
    """
    wanted = f"{run} holds a run of {steps_there} steps, {done} of which are done: it cannot be given {steps_now} steps"
    if done > steps_now:
        raise FileExistsError(f"{wanted}. Give at least {done} steps, or choose another --output.")
    steps = np.arange(done)
    rates = [np.broadcast_to(np.asarray(schedule(steps)), [done]) for schedule in (there, now)]
    differ = np.flatnonzero(rates[0] != rates[1])
    if differ.size:
        step = int(differ[0])
        raise FileExistsError(
            f"{wanted}, because the learning rate depends on the number of steps: at step {step} it was "
            f"{rates[0][step]:.4g}, of {steps_now} steps it would have been {rates[1][step]:.4g}. Start a new run in "
            f"another --output with --init {run} (once this one is finished), or choose a schedule that is constant "
            "after its warm-up from the start."
        )
