"""The names in checkpoints of google-research/bert, which stores the matrices of its heads as [outputs, H].

Shapes: H hidden.
"""

from kbert.weights.formats.config_names import BERT_CONFIG_FIELDS, ConfigNames
from kbert.weights.formats.name_table import NameTable, transposed

NAMES = NameTable(
    "google",
    names={
        "embeddings/token_embedding/embeddings": "bert/embeddings/word_embeddings",
        "embeddings/segment_embedding/embeddings": "bert/embeddings/token_type_embeddings",
        "embeddings/position_embedding/embeddings": "bert/embeddings/position_embeddings",
        "embeddings/layer_norm/gamma": "bert/embeddings/LayerNorm/gamma",
        "embeddings/layer_norm/beta": "bert/embeddings/LayerNorm/beta",
        "pooler/dense/kernel": "bert/pooler/dense/kernel",
        "pooler/dense/bias": "bert/pooler/dense/bias",
        "masked_lm_head/transform/kernel": "cls/predictions/transform/dense/kernel",
        "masked_lm_head/transform/bias": "cls/predictions/transform/dense/bias",
        "masked_lm_head/layer_norm/gamma": "cls/predictions/transform/LayerNorm/gamma",
        "masked_lm_head/layer_norm/beta": "cls/predictions/transform/LayerNorm/beta",
        "masked_lm_head/output_bias": "cls/predictions/output_bias",
        "next_sentence_head/dense/kernel": transposed("cls/seq_relationship/output_weights"),
        "next_sentence_head/dense/bias": "cls/seq_relationship/output_bias",
        "classifier_head/dense/kernel": transposed("output_weights"),
        "classifier_head/dense/bias": "output_bias",
        "regressor_head/dense/kernel": transposed("output_weights"),
        "regressor_head/dense/bias": "output_bias",
        "span_head/dense/kernel": transposed("cls/squad/output_weights"),
        "span_head/dense/bias": "cls/squad/output_bias",
    },
    block="bert/encoder/layer_{i}/",
    block_names={
        "attention/query/kernel": "attention/self/query/kernel",
        "attention/query/bias": "attention/self/query/bias",
        "attention/key/kernel": "attention/self/key/kernel",
        "attention/key/bias": "attention/self/key/bias",
        "attention/value/kernel": "attention/self/value/kernel",
        "attention/value/bias": "attention/self/value/bias",
        "attention/output/kernel": "attention/output/dense/kernel",
        "attention/output/bias": "attention/output/dense/bias",
        "attention_layer_norm/gamma": "attention/output/LayerNorm/gamma",
        "attention_layer_norm/beta": "attention/output/LayerNorm/beta",
        "feed_forward/intermediate/kernel": "intermediate/dense/kernel",
        "feed_forward/intermediate/bias": "intermediate/dense/bias",
        "feed_forward/output/kernel": "output/dense/kernel",
        "feed_forward/output/bias": "output/dense/bias",
        "feed_forward_layer_norm/gamma": "output/LayerNorm/gamma",
        "feed_forward_layer_norm/beta": "output/LayerNorm/beta",
    },
    absent={
        "masked_lm_head": "an untied decoder: Google's code always uses the token embeddings instead",
        "tagger_head": "a tagging head: Google's code has none",
        "multiple_choice_head": "a multiple-choice head: Google's code has none",
    },
)
CONFIG_NAMES = ConfigNames(
    format="google",
    fields=BERT_CONFIG_FIELDS,
    fixed={"layer_norm_epsilon": 1e-12, "causal": False, "position_embedding": "learned", "pooled_token": "first"},
    fixed_reason="its code has no such field, and means",
    defaults={"type_vocab_size": 16},
    activations={"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"},  # its "gelu" is the tanh form
)
