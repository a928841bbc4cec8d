"""The devices of Keras' JAX backend: one, or all of a kind as `keras.distribution.DataParallel`."""

import keras

from kbert.training.memory import keep_freed_memory


def choose_jax_devices(strategy: str, logical_cpus: int | None = None) -> tuple[str, int, str, str, list]:
    """Chooses the devices, and makes them Keras' global distribution.

    Returns the name of the strategy, the number of devices that share a batch, what they are and why, their platform,
    and the compute capabilities of GPUs.
    """
    backend = keras.backend.backend()
    if backend != "jax":
        raise ValueError(f"choose_hardware: kbert trains on the backends tensorflow and jax. Received: {backend}")
    if strategy == "multiworker":
        raise ValueError(
            "choose_hardware: several machines train through TensorFlow (KERAS_BACKEND=tensorflow); on the jax "
            f'backend `strategy` must be "auto", "one", "mirrored" or "tpu". Received: {strategy!r}'
        )
    import jax

    _split_cpu(jax, logical_cpus)
    devices = jax.local_devices()
    platform, number = devices[0].platform, len(devices)
    if strategy == "tpu" and platform != "tpu":
        raise ValueError(f"choose_hardware: strategy tpu needs a TPU. Received: JAX finds {number} {platform} devices")
    if platform == "cpu":
        keep_freed_memory()
    several = number > 1 and (strategy in ("mirrored", "tpu") or (strategy == "auto" and platform != "cpu"))
    why = "asked for" if strategy != "auto" else f"auto: JAX finds {number} {platform} device{'s' * (number > 1)}"
    capabilities = [_capability(device) for device in devices] if platform not in ("cpu", "tpu") else []
    if not several:
        keras.distribution.set_distribution(None)
        return "one", 1, f"one {platform} device ({why})", platform, capabilities
    names = [f"{device.platform}:{device.id}" for device in devices]
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=names))
    chosen = f"keras.distribution.DataParallel over {number} {platform} devices ({why})"
    return "tpu" if strategy == "tpu" else "mirrored", number, chosen, platform, capabilities


def count_devices() -> int:
    """The devices of the global distribution on JAX; 1 without one, and on other backends."""
    distribution = keras.distribution.distribution() if keras.backend.backend() == "jax" else None
    return 1 if distribution is None else distribution.device_mesh.devices.size


def _split_cpu(jax, logical_cpus: int | None) -> None:
    if not logical_cpus or logical_cpus < 2:
        return
    try:
        jax.config.update("jax_num_cpu_devices", int(logical_cpus))
    except RuntimeError as error:
        if jax.device_count("cpu") != logical_cpus:
            raise ValueError(
                "choose_hardware: `logical_cpus` must be set before JAX computes anything. "
                f"Received: {logical_cpus} in a process that has already started it. Call choose_hardware first."
            ) from error


def _capability(device) -> tuple[int, ...]:
    """The compute capability of a GPU; (0, 0) where it is not known."""
    return tuple(int(part) for part in str(getattr(device, "compute_capability", "0.0")).split("."))
