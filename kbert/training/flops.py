"""The arithmetic of speed: floating-point operations per token, the device's peak, this process' memory.

The formulas behind all speeds that kbert reports. Letters: L layers, H hidden, F intermediate, S sequence, P
predictions, V vocabulary. Matrix products only; a multiply-add counts 2, the backward pass twice the forward pass.
"""

import resource
import sys
from typing import TYPE_CHECKING

import keras

from kbert.config import BertConfig
from kbert.keras_compat import strategy_of
from kbert.models.bert_model import BertModel

if TYPE_CHECKING:
    import tensorflow as tf


_TERAFLOPS = (  # of bfloat16; the first name that a device's name contains
    ("H200", 989),
    ("H100 PCIe", 756),
    ("H100", 989),
    ("A100", 312),
    ("L40S", 362),
    ("A10", 125),
    ("TPU v6", 918),
    ("TPU v5 lite", 197),
    ("TPU v5e", 197),
    ("TPU v5", 459),
    ("TPU v4", 275),
    ("TPU v3", 123),
)


def training_flops_per_token(config: BertConfig, sequence_length: int, predictions: float) -> float:
    """Floating-point operations of one pre-training step per token, the masked-LM head on gathered positions.

    ``6 L (4H^2 + 2HF) + 12 L H S + 6 (P/S) (H^2 + HV)``, without recomputation; P is 0 for a model without the head.
    """
    head = config.hidden_dim**2 + config.hidden_dim * config.vocabulary_size
    return 3 * inference_flops_per_token(config, sequence_length) + 6 * predictions / sequence_length * head


def inference_flops_per_token(config: BertConfig, sequence_length: int) -> float:
    """Floating-point operations of the encoder's forward pass per token: ``2 L (4H^2 + 2HF) + 4 L H S``."""
    hidden = config.hidden_dim
    dense = 2 * config.num_layers * (4 * hidden**2 + 2 * hidden * config.intermediate_dim)
    return float(dense + 4 * config.num_layers * hidden * sequence_length)


def nominal_peak(device: str, precision: str = "bfloat16") -> float | None:
    """The maker's peak of dense matrix products in half precision, in FLOP/s; None if it is not known.

    MFU is the fraction of this peak that a training's own operations reach. The `device` is as JAX or TensorFlow name
    it, such as "NVIDIA H200".

    Source: the makers' data sheets, without sparsity.
    """
    if precision.removeprefix("mixed_") not in ("bfloat16", "float16"):
        return None
    return next((1e12 * peak for name, peak in _TERAFLOPS if name in device), None)


def device_name() -> str:
    """The name of the first GPU or TPU of this process, else "CPU"."""
    if keras.backend.backend() == "jax":
        import jax

        device = jax.devices()[0]
        return "CPU" if device.platform == "cpu" else device.device_kind
    import tensorflow as tf

    for device in tf.config.list_physical_devices("GPU"):
        return tf.config.experimental.get_device_details(device).get("device_name", "GPU")
    return "TPU" if tf.config.list_logical_devices("TPU") else "CPU"  # those of a remote TPU are logical devices


def device_peak(model: keras.Model) -> float | None:
    """The nominal peak of all devices that train a model together, in FLOP/s; None where it is not known."""
    peak = nominal_peak(device_name(), keras.dtype_policies.get(model.dtype_policy).compute_dtype)
    if peak is None:
        return None
    if keras.backend.backend() == "jax":
        import jax

        return peak * jax.device_count()
    strategy = strategy_of(model)
    return peak * (1 if strategy is None else strategy.num_replicas_in_sync)


def batch_shape(dataset: "tf.data.Dataset | keras.utils.PyDataset") -> tuple[int | None, int | None]:
    """(B, S) of a dataset's batches, choices counted as rows; None for an unknown size."""
    spec = dataset.element_spec
    inputs = spec[0] if isinstance(spec, tuple) else spec
    shape = inputs["token_ids"].shape if isinstance(inputs, dict) and "token_ids" in inputs else (None, None)
    rows = shape[0] if len(shape) == 2 or None in shape[:-1] else shape[0] * shape[1]
    return rows, shape[-1]


def batch_flops(model: keras.Model, dataset: "tf.data.Dataset | keras.utils.PyDataset") -> float | None:
    """Floating-point operations of a training step on one batch of a dataset, by `training_flops_per_token`."""
    rows, length = batch_shape(dataset)
    if rows is None or length is None or not isinstance(model, BertModel):
        return None
    inputs = dataset.element_spec[0]
    predictions = inputs["mask_positions"].shape[-1] if "mask_positions" in inputs else 0
    return rows * length * training_flops_per_token(model.config, length, predictions or 0)


def peak_bytes() -> int:
    """The most memory that this process, or its accelerator, has had in use."""
    return _peak_accelerator_bytes() or _peak_process_bytes()


def _peak_process_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB


def _peak_accelerator_bytes() -> int | None:
    """The peak of the first GPU or TPU; None where there is none, or it does not say."""
    if keras.backend.backend() == "jax":
        import jax

        return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return None
    return tf.config.experimental.get_memory_info("GPU:0")["peak"]
