"""int8 products for the dense layers of encoder blocks, in the graph of an export.

TensorFlow's CPU build for x86 has oneDNN's int8 matrix product as the op `_QuantizedMatMul`. `kbert.export` uses it in
a copy of the model. Everything else stays float32.

Shapes: n rows of tokens, H hidden (inputs), u units.
"""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from kbert.errors import SetupError
from kbert.keras_compat import all_layers
from kbert.layers.encoder_block import EncoderBlock
from kbert.layers.lora_dense import LoraDense
from kbert.layers.self_attention import SelfAttention
from kbert.models.bert_model import BertModel

# The dense layers of a block whose inputs have a range of their own. Key and value read what query reads.
INPUTS = (
    "attention.query",
    "attention.output_projection",
    "feed_forward.intermediate",
    "feed_forward.output_projection",
)
_OP = "_QuantizedMatMul"
_FUSED = {"gelu_erf": "GeluExact", "gelu_tanh": "GeluApproximate", "relu": "Relu", "tanh": "Tanh"}  # by the op itself
_PREPARED = 1024  # products that oneDNN keeps ready for each thread: one for each layer and number of rows
_SMOOTHING = 0.7  # how much of the difference between inputs goes into the weights
_SMALLEST = 1e-6  # range: a weight or input that is always 0 has no other


class Int8Product:
    """x W + b, then an activation, with x in 8 bits of a fixed range and W in 8 bits for each column.

    Weights, bias and ranges are constants of the graph. The op packs the weights and adjusts the bias at its first call
    and keeps both, so with other values it would silently return wrong results.

    Args:
        kernel: float32 [H, u].
        bias: float32 [u].
        bounds: the least and the largest x. Values outside are clipped.
        activation: one of the op's own: "GeluExact", "GeluApproximate", "Relu", "Tanh". Defaults to none.

    Inputs: float32 [n, H].

    Outputs: float32 [n, u].
    """

    def __init__(
        self, kernel: np.ndarray, bias: np.ndarray, bounds: tuple[float, float], activation: str | None = None
    ) -> None:
        largest = np.maximum(np.abs(kernel).max(axis=0), _SMALLEST).astype("float32")  # [u]
        weights = np.rint(kernel * (127 / largest)).astype(tf.qint8.as_numpy_dtype)
        least, most = min(bounds[0], 0.0), max(bounds[1], 0.0)
        step = max(most - least, _SMALLEST) / 255
        # 0 is one of the 256 values: most outputs of a GELU are near it, and an error that they share adds up.
        low = np.float32(step * round(least / step))
        high = np.float32(low + 255 * step)

        def constants():
            values = [weights, bias.astype("float32"), low, high, -largest, largest]
            return [tf.constant(value, tf.as_dtype(value.dtype)) for value in values]

        # A function of the graph's library, so that all signatures share the weights on the disk.
        self._constants = tf.function(constants, input_signature=[], autograph=False)
        self._fused = ["BiasAdd", *filter(None, [activation]), "Dequantize"]
        self._units = len(bias)

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        weights, bias, low, high, *of_weights = self._constants()
        quantized = tf.raw_ops.QuantizeV2(
            input=x, min_range=low, max_range=high, T=tf.quint8, mode="MIN_FIRST", ensure_minimum_range=0.0
        )
        inputs = [quantized.output, weights, bias, low, high, *of_weights]
        attributes = {
            "Tdevice_inputs": _types(),
            "Tdevice_outputs": _types(),
            "Thost_inputs": _types(*(each.dtype for each in inputs)),
            "Thost_outputs": _types(tf.float32),
            "T1": AttrValue(type=tf.quint8.as_datatype_enum),
            "T2": AttrValue(type=tf.qint8.as_datatype_enum),
            **{name: AttrValue(type=tf.float32.as_datatype_enum) for name in ("Tbias", "U", "Tout")},
            "input_quant_mode": AttrValue(s=b"MIN_FIRST"),
            "output_quant_mode": AttrValue(s=b"SCALED"),
            "fused_ops": AttrValue(list=AttrValue.ListValue(s=[name.encode() for name in self._fused])),
        }
        graph = tf.compat.v1.get_default_graph()
        # The op has no Python function, since its name begins with an underscore.
        op = graph.create_op(_OP, inputs, [tf.float32], attrs=attributes, name="int8_product")
        op.outputs[0].set_shape((x.shape[0], self._units))
        return op.outputs[0]


def _types(*dtypes: tf.DType) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(type=[dtype.as_datatype_enum for dtype in dtypes]))


def check_int8_product() -> None:
    """Raises SetupError unless TensorFlow computes int8 products on this machine, and computes them right."""
    kernel = np.linspace(-1.0, 1.0, 64, dtype="float32").reshape(16, 4)
    x = np.linspace(-2.0, 3.0, 48, dtype="float32").reshape(3, 16)
    bias = np.arange(4, dtype="float32")
    product = Int8Product(kernel, bias, (-2.0, 3.0))
    try:
        result = tf.function(product, autograph=False)(tf.constant(x)).numpy()
    except (tf.errors.OpError, RuntimeError) as error:  # no kernel; no such op
        reason = str(error).partition("\n")[0]
        raise SetupError(
            f'export: precision="int8" needs an int8 matrix product that TensorFlow {tf.__version__} lacks on this '
            f"machine: {reason}. TensorFlow 2.17 and later have it on Linux x86-64."
        ) from error
    difference = np.abs(result - (x @ kernel + bias)).max()
    if not difference < 0.1:
        raise SetupError(
            f"export: TensorFlow {tf.__version__} computes int8 products wrongly on this machine: a test product is "
            f'off by {difference:.2g}. Export with precision="bfloat16", or with TensorFlow 2.17 to 2.21.'
        )


def encoder_blocks(model: BertModel) -> list[EncoderBlock]:
    """The blocks of a model's encoder, or of the encoders of an ensemble's members."""
    return [layer for layer in all_layers(model) if isinstance(layer, EncoderBlock)]


def quantize_block(block: EncoderBlock, bounds: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Computes a block's dense layers as int8 products, without changing its weights.

    Args:
        bounds: dense layer of `INPUTS` → the least and the largest value of each of its H inputs, float32 [H].
    """
    attention, feed_forward = block.attention, block.feed_forward
    activation = _FUSED.get(block.activation)
    attention.project_heads = _JointProjection(attention, bounds["attention.query"])
    attention.output_projection = _product(attention.output_projection, bounds["attention.output_projection"])
    feed_forward.intermediate = _smoothed(feed_forward.intermediate, bounds["feed_forward.intermediate"], activation)
    feed_forward.output_projection = _smoothed(feed_forward.output_projection, bounds["feed_forward.output_projection"])
    if activation:
        feed_forward.activate = lambda x, training=False: x


def _product(dense: LoraDense, bounds: tuple[np.ndarray, np.ndarray]) -> Int8Product:
    return Int8Product(dense.kernel.numpy(), dense.bias.numpy(), _range(bounds))


def _smoothed(
    dense: LoraDense, bounds: tuple[np.ndarray, np.ndarray], activation: str | None = None
) -> Callable[..., tf.Tensor]:
    """A product of x s and W / s, with one s for each of the H inputs: SmoothQuant (Xiao et al. 2023, equation 4).

    A few inputs of the feed-forward products are up to 30 times as large as the others, which would share few of the
    256 values. W / s has a scale for each column, so it loses little.
    """
    kernel = dense.kernel.numpy()
    least, largest = bounds
    of_inputs = np.maximum(-least, largest)  # [H]
    of_inputs = np.maximum(of_inputs, max(of_inputs.mean() / 10, _SMALLEST))  # some may be larger than on these texts
    of_weights = np.maximum(np.abs(kernel).max(axis=1), _SMALLEST)
    scale = (of_weights ** (1 - _SMOOTHING) / of_inputs**_SMOOTHING).astype("float32")
    product = Int8Product(
        kernel / scale[:, None], dense.bias.numpy(), _range((least * scale, largest * scale)), activation
    )
    return lambda x, training=False: product(x * scale)


def _range(bounds: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    return float(bounds[0].min()), float(bounds[1].max())


class _JointProjection:
    """`SelfAttention.project_heads` as one product."""

    def __init__(self, attention: SelfAttention, bounds: tuple[np.ndarray, np.ndarray]) -> None:
        layers = attention.query, attention.key, attention.value
        scales = attention.head_dim**-0.5, 1.0, 1.0
        kernel = [scale * layer.kernel.numpy() for scale, layer in zip(scales, layers, strict=True)]
        bias = [scale * layer.bias.numpy() for scale, layer in zip(scales, layers, strict=True)]
        self.product = Int8Product(np.concatenate(kernel, axis=1), np.concatenate(bias), _range(bounds))

    def __call__(self, rows: tf.Tensor, shape: tuple) -> list[tf.Tensor]:
        batch, length, heads, width = shape
        parts = tf.reshape(self.product(rows), (batch, length, 3, heads, width))
        return tf.unstack(tf.transpose(parts, (2, 0, 3, 1, 4)), 3)


def row_lengths(model: BertModel) -> tuple[int, ...]:
    """Lengths for `BertModel.row_lengths`: 8 in each doubling, or 4 in a model too deep to keep so many ready."""
    products = len(INPUTS) * len(encoder_blocks(model))
    steps = 8 if 32 * products <= _PREPARED else 4  # lengths up to 512: 32 or 20
    lengths = list(range(8, 8 * steps, 8))
    while lengths[-1] < model.config.max_sequence_length:
        lengths.append(lengths[-1] + max(8, 2 ** int(np.log2(lengths[-1])) // steps))
    return tuple(lengths)
