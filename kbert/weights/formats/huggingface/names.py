"""The names in checkpoints of Hugging Face's transformers, which stores the matrices of linear layers transposed."""

from kbert.weights.formats.config_names import ConfigNames
from kbert.weights.formats.name_table import NameTable, TensorName


def _transposed(name):
    return TensorName(name, transposed=True)


NAMES = NameTable(
    "huggingface",
    names={
        "embeddings/token_embedding/embeddings": "bert.embeddings.word_embeddings.weight",
        "embeddings/segment_embedding/embeddings": "bert.embeddings.token_type_embeddings.weight",
        "embeddings/position_embedding/embeddings": "bert.embeddings.position_embeddings.weight",
        "embeddings/layer_norm/gamma": "bert.embeddings.LayerNorm.weight",
        "embeddings/layer_norm/beta": "bert.embeddings.LayerNorm.bias",
        "pooler/dense/kernel": _transposed("bert.pooler.dense.weight"),
        "pooler/dense/bias": "bert.pooler.dense.bias",
        "masked_lm_head/transform/kernel": _transposed("cls.predictions.transform.dense.weight"),
        "masked_lm_head/transform/bias": "cls.predictions.transform.dense.bias",
        "masked_lm_head/layer_norm/gamma": "cls.predictions.transform.LayerNorm.weight",
        "masked_lm_head/layer_norm/beta": "cls.predictions.transform.LayerNorm.bias",
        "masked_lm_head/output_embeddings": "cls.predictions.decoder.weight",
        "masked_lm_head/output_bias": "cls.predictions.bias",
        "next_sentence_head/dense/kernel": _transposed("cls.seq_relationship.weight"),
        "next_sentence_head/dense/bias": "cls.seq_relationship.bias",
        "classifier_head/dense/kernel": _transposed("classifier.weight"),
        "classifier_head/dense/bias": "classifier.bias",
        "regressor_head/dense/kernel": _transposed("classifier.weight"),
        "regressor_head/dense/bias": "classifier.bias",
        "span_head/dense/kernel": _transposed("qa_outputs.weight"),
        "span_head/dense/bias": "qa_outputs.bias",
        "tagger_head/dense/kernel": _transposed("classifier.weight"),
        "tagger_head/dense/bias": "classifier.bias",
        "multiple_choice_head/dense/kernel": _transposed("classifier.weight"),
        "multiple_choice_head/dense/bias": "classifier.bias",
    },
    block="bert.encoder.layer.{i}.",
    block_names={
        "attention/query/kernel": _transposed("attention.self.query.weight"),
        "attention/query/bias": "attention.self.query.bias",
        "attention/key/kernel": _transposed("attention.self.key.weight"),
        "attention/key/bias": "attention.self.key.bias",
        "attention/value/kernel": _transposed("attention.self.value.weight"),
        "attention/value/bias": "attention.self.value.bias",
        "attention/output/kernel": _transposed("attention.output.dense.weight"),
        "attention/output/bias": "attention.output.dense.bias",
        "attention_layer_norm/gamma": "attention.output.LayerNorm.weight",
        "attention_layer_norm/beta": "attention.output.LayerNorm.bias",
        "feed_forward/intermediate/kernel": _transposed("intermediate.dense.weight"),
        "feed_forward/intermediate/bias": "intermediate.dense.bias",
        "feed_forward/output/kernel": _transposed("output.dense.weight"),
        "feed_forward/output/bias": "output.dense.bias",
        "feed_forward_layer_norm/gamma": "output.LayerNorm.weight",
        "feed_forward_layer_norm/beta": "output.LayerNorm.bias",
    },
)
CONFIG_NAMES = ConfigNames(
    format="huggingface",
    fields={
        "vocabulary_size": "vocab_size",
        "num_layers": "num_hidden_layers",
        "hidden_dim": "hidden_size",
        "num_heads": "num_attention_heads",
        "intermediate_dim": "intermediate_size",
        "max_sequence_length": "max_position_embeddings",
        "num_segments": "type_vocab_size",
        "activation": "hidden_act",
        "hidden_dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "layer_norm_epsilon": "layer_norm_eps",
        "initializer_stddev": "initializer_range",
        "causal": "is_decoder",
    },
    fixed={"position_embedding": "learned", "pooled_token": "first"},
    fixed_reason="its BertModel means",
    defaults={"hidden_act": "gelu"},
    activations={  # its "gelu" is the erf form, unlike Google's
        "gelu_pytorch_tanh": "gelu_tanh",
        "gelu_new": "gelu_tanh",
        "gelu_fast": "gelu_tanh",
        "gelu_python_tanh": "gelu_tanh",
        "gelu": "gelu_erf",
        "gelu_python": "gelu_erf",
        "relu": "relu",
        "silu": "silu",
        "swish": "silu",
        "tanh": "tanh",
    },
)
