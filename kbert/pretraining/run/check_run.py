"""What a pre-training cannot do on this machine, found before anything is written."""

import keras

from kbert.training.accumulation import check_accumulation
from kbert.training.jax_devices import check_divides


def check_run(settings, hardware, log_every, data_service) -> None:
    """Raises ValueError if the hardware, the intervals or the data service do not go with the settings."""
    if settings.hours is not None and hardware.name == "multiworker":
        raise ValueError("pretrain: `hours` works on one machine only, as the clocks of several differ. Give `steps`.")
    if settings.hours is not None and keras.backend.backend() != "tensorflow":
        raise ValueError(
            "pretrain: `hours` needs the TensorFlow backend, as others keep the learning rate for a window of steps. "
            f"Give `steps`. Received: the backend {keras.backend.backend()}"
        )
    check_accumulation(settings.accumulate, hardware, [stage.batch_size for stage in settings.stages()])
    if log_every % settings.steps_per_execution:
        raise ValueError(
            "pretrain: --log-every (by default the divisor of --checkpoint-every nearest to 100) must be a multiple of "
            f"--steps-per-execution. Received: {log_every} and {settings.steps_per_execution}"
        )
    if data_service is not None and not settings.reads_records:
        raise ValueError("pretrain: a data service makes rows of records. Received: data_service, and text")
    for rows in (*(stage.batch_size for stage in settings.stages()), *(size for *_, size, _ in settings.all_phases())):
        check_divides(rows)  # of training, and of evaluation
