"""Where gradients can be accumulated over batches."""


def check_accumulation(accumulate: int, hardware) -> None:
    """Raises ValueError unless `accumulate` is 1 or the hardware can accumulate gradients.

    Keras 3.15 decides in each replica whether a batch completes an update, which `tf.distribute` refuses.

    Args:
        accumulate: batches of an update.
        hardware: `kbert.training.hardware.Hardware`.
    """
    if accumulate > 1 and hardware.strategy is not None and hardware.name != "one":
        raise ValueError(
            "`accumulate` is for one device of TensorFlow, or for JAX. "
            f"Received: accumulate={accumulate} with the strategy {hardware.name!r}"
        )
