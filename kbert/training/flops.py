"""The arithmetic of speed: floating-point operations per token, this machine's peak, this process' memory.

The formulas behind all speeds that kbert reports. Letters: L layers, H hidden, F intermediate, S sequence, P
predictions, V vocabulary. Matrix products only; a multiply-add counts 2, the backward pass twice the forward pass.
"""

import resource
import sys
import time


def training_flops_per_token(config, sequence_length, predictions):
    """Floating-point operations of one pre-training step per token, the masked-LM head on gathered positions.

    ``6 L (4H^2 + 2HF) + 12 L H S + 6 (P/S) (H^2 + HV)``, without recomputation.

    Args:
        config: `BertConfig`.
        sequence_length: S.
        predictions: P, positions per sequence that go through the masked-LM head; 0 for a model without it.

    Returns:
        float.

    Example::

        tokens_per_second * training_flops_per_token(BertConfig.from_size("base"), 128, 20)  # FLOP/s
    """
    head = config.hidden_dim**2 + config.hidden_dim * config.vocabulary_size
    return 3 * inference_flops_per_token(config, sequence_length) + 6 * predictions / sequence_length * head


def inference_flops_per_token(config, sequence_length):
    """Floating-point operations of the encoder's forward pass per token: ``2 L (4H^2 + 2HF) + 4 L H S``."""
    hidden, inner = config.hidden_dim, config.intermediate_dim
    dense = 2 * config.num_layers * (4 * hidden**2 + 2 * hidden * inner)
    return float(dense + 4 * config.num_layers * hidden * sequence_length)


def matmul_peak(precision="float32", size=None, seconds=2.0):
    """The peak speed of matrix products in this process, in FLOP/s: the best of repeated square products.

    Args:
        precision: "float32", "bfloat16" or "float16"; a mixed Keras policy means its compute dtype.
        size: int, of the square matrices; default 2048, on a GPU 8192.
        seconds: float, how long to try.

    Returns:
        float, FLOP/s.
    """
    import tensorflow as tf

    dtype = precision.removeprefix("mixed_")
    size = size or (8192 if tf.config.list_physical_devices("GPU") else 2048)
    a, b = (tf.cast(tf.random.normal((size, size)), dtype) for _ in range(2))

    @tf.function
    def product():
        # The sum makes the host wait for the result without copying it; it adds 1 / `size` to the work.
        return tf.reduce_sum(tf.matmul(a, b))

    product().numpy()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        product().numpy()
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best


def peak_memory_bytes():
    """The peak main memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB
