"""Every layer through the shared harness: B = 4, S = 7, H = 12, A = 3."""

import numpy as np
import pytest
from helpers.layer_harness import run_layer_test

from kbert.layers.attention_bias import AttentionBias
from kbert.layers.choices import MergeChoices, SplitChoices
from kbert.layers.embedding_block import EmbeddingBlock, TokenEmbedding
from kbert.layers.encoder_block import EncoderBlock
from kbert.layers.feed_forward import FeedForward
from kbert.layers.layer_norm import LayerNorm
from kbert.layers.masked_lm_head import MaskedLMHead
from kbert.layers.pooler import Pooler
from kbert.layers.replica_dropout import ReplicaDropout
from kbert.layers.self_attention import SelfAttention
from kbert.layers.sinusoidal_positions import SinusoidalPositions
from kbert.layers.task_head import TaskHead

_RNG = np.random.default_rng(5)
X = _RNG.normal(size=(4, 7, 12)).astype("float32")
IDS = _RNG.integers(0, 37, (4, 7)).astype("int32")
SEGMENTS = _RNG.integers(0, 2, (4, 7)).astype("int32")
POSITIONS = _RNG.integers(0, 11, (4, 7)).astype("int32")
MASK = np.arange(7)[None] < np.array([7, 3, 1, 5])[:, None]
PARTS = np.array([[1, 1, 1, 2, 2, 3, 3], [1, 1, 2, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [1, 2, 2, 2, 0, 0, 0]], "int32")
BIAS = np.where(MASK, 0.0, -10000.0).astype("float32")[:, None, None, :]
CHOICES = _RNG.integers(0, 37, (4, 3, 7)).astype("int32")

DENSE = ["kernel", "bias"]
NORM = ["gamma", "beta"]


def under(name, leaves):
    return [f"{name}/{leaf}" for leaf in leaves]


ATTENTION = [path for name in ("query", "key", "value", "output") for path in under(name, DENSE)]
FEED_FORWARD = under("intermediate", DENSE) + under("output", DENSE)
BLOCK = (
    under("attention", ATTENTION)
    + under("attention_layer_norm", NORM)
    + under("feed_forward", FEED_FORWARD)
    + under("feed_forward_layer_norm", NORM)
)
EMBEDDINGS = [f"{name}_embedding/embeddings" for name in ("token", "segment", "position")] + under("layer_norm", NORM)
TABLES = {"vocabulary_size": 37, "hidden_dim": 12, "max_sequence_length": 11, "dropout": 0.2}

CASES = {
    "token_embedding": (TokenEmbedding, {"vocabulary_size": 37, "hidden_dim": 12}, [IDS], ["embeddings"]),
    "embedding_block": (EmbeddingBlock, TABLES, [IDS, SEGMENTS], EMBEDDINGS),
    "embedding_block_packed": (EmbeddingBlock, TABLES, [IDS, SEGMENTS, POSITIONS], EMBEDDINGS),
    "embedding_block_sinusoidal": (
        EmbeddingBlock,
        TABLES | {"positions": "sinusoidal"},
        [IDS, SEGMENTS],
        [path for path in EMBEDDINGS if "position" not in path],
    ),
    "sinusoidal_positions": (SinusoidalPositions, {"hidden_dim": 12}, [POSITIONS], []),
    "attention_bias": (AttentionBias, {}, [MASK], []),
    "attention_bias_causal": (AttentionBias, {"causal": True}, [MASK], []),
    "attention_bias_packed": (AttentionBias, {}, [MASK, PARTS], []),
    "self_attention": (SelfAttention, {"num_heads": 3}, [X, BIAS], ATTENTION),
    "feed_forward": (FeedForward, {"intermediate_dim": 20}, [X], FEED_FORWARD),
    "encoder_block": (EncoderBlock, {"num_heads": 3, "intermediate_dim": 20}, [X, BIAS], BLOCK),
    "pooler": (Pooler, {}, [X], under("dense", DENSE)),
    "pooler_packed": (Pooler, {"num_parts": 3}, [X, PARTS], under("dense", DENSE)),
    "pooler_packed_last": (Pooler, {"num_parts": 3, "token": "last"}, [X, PARTS], under("dense", DENSE)),
    "layer_norm": (LayerNorm, {}, [X], NORM),
    "dropout": (ReplicaDropout, {"rate": 0.3}, [X], []),
    "masked_lm_head": (
        MaskedLMHead,
        {"vocabulary_size": 37},
        [X, POSITIONS[:, :3] % 7],
        ["output_embeddings", "output_bias"] + under("transform", DENSE) + under("layer_norm", NORM),
    ),
    "task_head": (TaskHead, {"units": 5, "dropout": 0.1}, [X], under("dense", DENSE)),
    "merge_choices": (MergeChoices, {}, [CHOICES], []),
}


VARIANTS = ("embedding_block_packed", "embedding_block_sinusoidal", "attention_bias_causal")
VARIANTS += ("attention_bias_packed", "pooler_packed", "pooler_packed_last")  # of layers beside them
EVERY = [pytest.param(case, marks=pytest.mark.slow if case in VARIANTS else ()) for case in CASES]


@pytest.mark.parametrize("case", EVERY)
def test_layer(case, tmp_path):
    layer_class, arguments, inputs, paths = CASES[case]
    run_layer_test(layer_class, arguments, inputs, tmp_path, paths, tolerance=1e-6)


def test_split_choices_undoes_merge_choices():
    merged = MergeChoices()(CHOICES)
    np.testing.assert_array_equal(merged[3 * 2 + 1], CHOICES[2, 1])
    np.testing.assert_array_equal(SplitChoices()(merged[:, :1], np.ones_like(CHOICES, bool)), CHOICES[:, :, 0])
