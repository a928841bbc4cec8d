"""Batches to hidden states; keras.ops only."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AttentionBias": "attention_bias",
        "BiLstm": "bilstm",
        "EmbeddingBlock": "embedding_block",
        "EmbeddingPooling": "embedding_pooling",
        "EncoderBlock": "encoder_block",
        "FeedForward": "feed_forward",
        "LayerNorm": "layer_norm",
        "LoraDense": "lora_dense",
        "MaskedLMHead": "masked_lm_head",
        "MergeChoices": "choices",
        "Pooler": "pooler",
        "ReplicaDropout": "replica_dropout",
        "ScalarMix": "scalar_mix",
        "SelfAttention": "self_attention",
        "SinusoidalPositions": "sinusoidal_positions",
        "SplitChoices": "choices",
        "TaskHead": "task_head",
        "TokenEmbedding": "embedding_block",
    },
)
