"""The BERT encoder.

Shapes: B batch, S sequence, H hidden, A heads, K parts of a packed row, L layers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from kbert.checks import check_option
from kbert.config import BertConfig
from kbert.layers.attention_bias import AttentionBias
from kbert.layers.embedding_block import EmbeddingBlock
from kbert.layers.encoder_block import EncoderBlock
from kbert.layers.pooler import Pooler
from kbert.models.bert_model import BertModel
from kbert.options import Count

if TYPE_CHECKING:
    from kbert.layers.embedding_block import TokenEmbedding


OUTPUTS = ("sequence_output", "pooled_output", "hidden_states", "attention_probs")


@keras.saving.register_keras_serializable("kbert")
class BertEncoder(BertModel):
    """Token ids to hidden states: embeddings, L encoder blocks, pooler.

    Args:
        config: `BertConfig`.
        outputs: which of ``sequence_output, pooled_output, hidden_states, attention_probs`` to return. None: the first
            two, or without pooler only the first.
        num_parts: K, for packed rows (several sequences in one row, each attending only to itself). None: plain rows.
        pooler: whether there is a pooler. Without one there is no ``pooled_output``.
        dtype: dtype policy, such as ``"mixed_bfloat16"``. None: the global one.

    Inputs: a dict; S may vary, up to ``config.max_sequence_length``:
        token_ids, segment_ids: int32 [B, S].
        padding_mask: bool [B, S], True at tokens.
        position_ids, part_ids: int32 [B, S], for packed rows only. Part 0 is padding, parts count from 1.

    Outputs: a dict, in the compute dtype:
        sequence_output: [B, S, H], of the last block. Values at padding have no meaning.
        pooled_output: [B, H], dense + tanh of [CLS], or of the last token (``config.pooled_token``). For packed rows
            [B, K, H], with zeros for a part that a row does not hold.
        hidden_states: L + 1 of [B, S, H], the embeddings first.
        attention_probs: L of [B, A, S, S] (float32, before dropout).

    Raises:
        ValueError: unknown outputs, `pooled_output` without pooler, or a sequence longer than the position table.

    Token ids outside the vocabulary: see `kbert.layers.TokenEmbedding`.

    Source: Devlin et al. 2018, section 3.

    Example::

        encoder = BertEncoder(BertConfig.from_size("tiny", vocabulary_size=100))
        ids = keras.ops.ones((2, 5), dtype="int32")
        encoder({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0})["pooled_output"]  # [2, 128]
    """

    task = "encoder"
    token_outputs = ("sequence_output",)

    def __init__(
        self,
        config: BertConfig,
        outputs: str | Sequence[str] | None = None,
        num_parts: int | None = None,
        pooler: bool = True,
        dtype: str | dict | keras.DTypePolicy | None = None,
        **kwargs,
    ):
        pooler = check_option("BertEncoder", "pooler", pooler, bool)
        outputs = _checked_outputs(config, outputs, pooler)
        num_parts = check_option("BertEncoder", "num_parts", num_parts, Count | None)
        policy = keras.dtype_policies.get(dtype)
        layers = kwargs.pop("_layers", None)  # of `with_outputs`
        embeddings, attention_bias, blocks, pool = layers or _new_layers(config, num_parts, pooler, policy)

        inputs = _inputs(num_parts)
        parts = {} if num_parts is None else {"part_ids": inputs["part_ids"]}
        positions = {} if num_parts is None else {"position_ids": inputs["position_ids"]}
        x = embeddings(inputs["token_ids"], inputs["segment_ids"], **positions)  # [B, S, H]
        bias = attention_bias(inputs["padding_mask"], **parts)  # [B, 1, 1 | S, S]
        hidden_states, attention_probs = [x], []
        for block in blocks:
            if "attention_probs" in outputs and layers is not None:
                x, probs = _WithProbs(block, dtype=policy, name=f"{block.name}_with_probs")(x, bias)
                attention_probs.append(probs)
            elif "attention_probs" in outputs:
                x, probs = block(x, bias, return_probs=True)
                attention_probs.append(probs)
            else:
                x = block(x, bias)
            hidden_states.append(x)
        available = {"sequence_output": x, "hidden_states": hidden_states, "attention_probs": attention_probs}
        if pooler:
            mask = {"padding_mask": inputs["padding_mask"]} if config.pooled_token == "last" else {}
            available["pooled_output"] = pool(x, **parts, **mask)
        super().__init__(inputs, {name: available[name] for name in outputs}, dtype=policy, **kwargs)

        self.config = config
        self.num_parts = num_parts
        self.output_keys = outputs
        self.embeddings = embeddings
        self.attention_bias = attention_bias
        self.blocks = blocks
        self.pooler = pool

    def with_outputs(self, *outputs) -> "BertEncoder":
        """An encoder with these outputs that shares the layers of this one: training either changes both.

        Args:
            *outputs: which of ``sequence_output, pooled_output, hidden_states, attention_probs`` to return, also as
                one list.

        Raises:
            ValueError: an unknown output, or `pooled_output` of an encoder without pooler.

        Example::

            encoder = BertEncoder(BertConfig.from_size("tiny", vocabulary_size=100))
            encoder.with_outputs("hidden_states", "attention_probs").output["hidden_states"]  # 3 of [B, S, 128]
        """
        if len(outputs) == 1 and not isinstance(outputs[0], str):
            outputs = outputs[0]
        return self._sharing(outputs, self.num_parts, self.pooler)

    def with_parts(self, num_parts: int | None) -> "BertEncoder":
        """The encoder for rows of so many parts, which shares the layers of this one: training either changes both.

        Args:
            num_parts: K. None: plain rows.

        Example::

            encoder = BertEncoder(BertConfig.from_size("tiny", vocabulary_size=100))
            encoder.with_parts(8).output["pooled_output"]  # [B, 8, 128]
        """
        if num_parts == self.num_parts:
            return self
        pool = None if self.pooler is None else self.pooler.with_parts(num_parts)
        return self._sharing(self.output_keys, num_parts, pool)

    def _sharing(self, outputs, num_parts, pool):
        layers = self.embeddings, self.attention_bias, list(self.blocks), pool
        return BertEncoder(self.config, outputs, num_parts, pool is not None, self.dtype_policy, _layers=layers)

    @property
    def encoder(self) -> "BertEncoder":
        """The encoder itself, since every model of kbert has an encoder."""
        return self

    def __dir__(self):
        # Keras finds what to save by walking dir(): it would follow `encoder` in an endless loop.
        return [name for name in super().__dir__() if name != "encoder"]

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """As of every functional model, but the blocks themselves, under which files have their weights."""
        return [layer.block if isinstance(layer, _WithProbs) else layer for layer in super().layers]

    @property
    def token_embedding(self) -> "TokenEmbedding":
        """The `TokenEmbedding` layer."""
        return self.embeddings.token_embedding

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "config": self.config.to_dict(),
            "outputs": list(self.output_keys),
            "num_parts": self.num_parts,
            "pooler": self.pooler is not None,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def deserialize_arguments(cls, config: dict) -> dict:
        return config | {"config": BertConfig.from_dict(config["config"])}


class _WithProbs(keras.layers.Layer):
    """An encoder block with its attention probabilities.

    A layer in Keras' graphs keeps the number of outputs of its first call, so the block itself cannot return both.
    """

    def __init__(self, block, **kwargs):
        super().__init__(**kwargs)
        self.block = block
        self.built = True

    def call(self, x, bias, training=False):
        return self.block(x, bias, return_probs=True, training=training)

    def compute_output_spec(self, x, bias, training=False):
        return self.block.compute_output_spec(x, bias, return_probs=True)


def _new_layers(config, num_parts, pooler, policy):
    embeddings = EmbeddingBlock(
        config.vocabulary_size,
        config.hidden_dim,
        config.max_sequence_length,
        num_segments=config.num_segments,
        dropout=config.hidden_dropout,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_stddev=config.initializer_stddev,
        positions=config.position_embedding,
        dtype=policy,
        name="embeddings",
    )
    attention_bias = AttentionBias(causal=config.causal, dtype=policy, name="attention_bias")
    blocks = [_block(config, policy, i) for i in range(config.num_layers)]
    pool = None
    if pooler:
        pool = Pooler(num_parts, config.initializer_stddev, config.pooled_token, dtype=policy, name="pooler")
    return embeddings, attention_bias, blocks, pool


def _block(config, policy, index):
    return EncoderBlock(
        config.num_heads,
        config.intermediate_dim,
        activation=config.activation,
        hidden_dropout=config.hidden_dropout,
        attention_dropout=config.attention_dropout,
        layer_norm_epsilon=config.layer_norm_epsilon,
        initializer_stddev=config.initializer_stddev,
        dtype=policy,
        name=f"encoder_block_{index}",
    )


def _inputs(num_parts):
    names = ["token_ids", "segment_ids"] + ([] if num_parts is None else ["position_ids", "part_ids"])
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    return inputs | {"padding_mask": keras.Input((None,), dtype="bool", name="padding_mask")}


def _checked_outputs(config, outputs, pooler):
    if not isinstance(config, BertConfig):
        raise TypeError(f"BertEncoder: `config` must be a BertConfig. Received: {config!r}")
    if outputs is None:
        outputs = ("sequence_output", "pooled_output") if pooler else ("sequence_output",)
    outputs = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    if not outputs or set(outputs) - set(OUTPUTS):
        raise ValueError(f"BertEncoder: `outputs` must be some of {OUTPUTS}. Received: {outputs}")
    if "pooled_output" in outputs and not pooler:
        raise ValueError(f"BertEncoder: `pooled_output` needs the pooler. Received: {outputs}, and no pooler")
    return outputs
