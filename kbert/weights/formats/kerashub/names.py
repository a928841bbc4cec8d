"""The names in KerasHub presets: the paths of its variables. Its attention layers have a separate axis of heads."""

from kbert.weights.formats.config_names import ConfigNames
from kbert.weights.formats.name_table import NameTable, TensorName

NAMES = NameTable(
    "kerashub",
    names={
        "embeddings/token_embedding/embeddings": "token_embedding/embeddings",
        "embeddings/segment_embedding/embeddings": "segment_embedding/embeddings",
        "embeddings/position_embedding/embeddings": "position_embedding/embeddings",
        "embeddings/layer_norm/gamma": "embeddings_layer_norm/gamma",
        "embeddings/layer_norm/beta": "embeddings_layer_norm/beta",
        "pooler/dense/kernel": "pooled_dense/kernel",
        "pooler/dense/bias": "pooled_dense/bias",
        "masked_lm_head/transform/kernel": "mlm_head/intermediate_dense/kernel",
        "masked_lm_head/transform/bias": "mlm_head/intermediate_dense/bias",
        "masked_lm_head/layer_norm/gamma": "mlm_head/intermediate_layer_norm/gamma",
        "masked_lm_head/layer_norm/beta": "mlm_head/intermediate_layer_norm/beta",
        "masked_lm_head/output_bias": "mlm_head/output_bias",
        "classifier_head/dense/kernel": "logits/kernel",
        "classifier_head/dense/bias": "logits/bias",
        "regressor_head/dense/kernel": "logits/kernel",
        "regressor_head/dense/bias": "logits/bias",
    },
    block="transformer_layer_{i}/",
    block_names={
        "attention/query/kernel": TensorName("self_attention_layer/query/kernel", "HAD"),
        "attention/query/bias": TensorName("self_attention_layer/query/bias", "AD"),
        "attention/key/kernel": TensorName("self_attention_layer/key/kernel", "HAD"),
        "attention/key/bias": TensorName("self_attention_layer/key/bias", "AD"),
        "attention/value/kernel": TensorName("self_attention_layer/value/kernel", "HAD"),
        "attention/value/bias": TensorName("self_attention_layer/value/bias", "AD"),
        "attention/output/kernel": TensorName("self_attention_layer/attention_output/kernel", "ADH"),
        "attention/output/bias": "self_attention_layer/attention_output/bias",
        "attention_layer_norm/gamma": "self_attention_layer_norm/gamma",
        "attention_layer_norm/beta": "self_attention_layer_norm/beta",
        "feed_forward/intermediate/kernel": "feedforward_intermediate_dense/kernel",
        "feed_forward/intermediate/bias": "feedforward_intermediate_dense/bias",
        "feed_forward/output/kernel": "feedforward_output_dense/kernel",
        "feed_forward/output/bias": "feedforward_output_dense/bias",
        "feed_forward_layer_norm/gamma": "feedforward_layer_norm/gamma",
        "feed_forward_layer_norm/beta": "feedforward_layer_norm/beta",
    },
    absent={
        "masked_lm_head": "an untied decoder: BertMaskedLM always uses the token embeddings instead",
        "next_sentence_head": "a next-sentence head: KerasHub has none",
        "span_head": "a span head: KerasHub has none",
        "tagger_head": "a tagging head: KerasHub has none",
        "multiple_choice_head": "a multiple-choice head: KerasHub has none",
    },
)
CONFIG_NAMES = ConfigNames(
    format="kerashub",
    fields={
        "vocabulary_size": "vocabulary_size",
        "num_layers": "num_layers",
        "hidden_dim": "hidden_dim",
        "num_heads": "num_heads",
        "intermediate_dim": "intermediate_dim",
        "max_sequence_length": "max_sequence_length",
        "num_segments": "num_segments",
        "hidden_dropout": "dropout",
        "attention_dropout": "dropout",
    },
    fixed={"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12, "causal": False, "initializer_stddev": 0.02},
    fixed_reason="BertBackbone has no such argument, and means",
    num_labels="num_classes",
)
