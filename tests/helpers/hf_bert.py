"""Hugging Face's weights into kbert's models, for the parity tests."""

import numpy as np

_BLOCK = {  # kbert's path below an encoder block -> Hugging Face's name below bert.encoder.layer.<i>
    "attention/query": "attention.self.query",
    "attention/key": "attention.self.key",
    "attention/value": "attention.self.value",
    "attention/output": "attention.output.dense",
    "attention_layer_norm": "attention.output.LayerNorm",
    "feed_forward/intermediate": "intermediate.dense",
    "feed_forward/output": "output.dense",
    "feed_forward_layer_norm": "output.LayerNorm",
}
_REST = {
    "embeddings/token_embedding": "bert.embeddings.word_embeddings",
    "embeddings/segment_embedding": "bert.embeddings.token_type_embeddings",
    "embeddings/position_embedding": "bert.embeddings.position_embeddings",
    "embeddings/layer_norm": "bert.embeddings.LayerNorm",
    "pooler/dense": "bert.pooler.dense",
    "masked_lm_head/transform": "cls.predictions.transform.dense",
    "masked_lm_head/layer_norm": "cls.predictions.transform.LayerNorm",
    "masked_lm_head": "cls.predictions",
    "next_sentence_head/dense": "cls.seq_relationship",
    "classifier_head/dense": "classification.classifier",
    "regressor_head/dense": "regression.classifier",
    "tagger_head/dense": "tagging.classifier",
    "span_head/dense": "span.qa_outputs",
    "multiple_choice_head/dense": "multiple_choice.classifier",
}
_LEAF = {
    "kernel": "weight",
    "embeddings": "weight",
    "output_embeddings": "decoder.weight",
    "gamma": "weight",
    "beta": "bias",
    "bias": "bias",
    "output_bias": "bias",
}


def hf_name(path):
    """The name under which the golden files hold the variable with this path."""
    layer, leaf = path.rsplit("/", 1)
    if layer.startswith("encoder_block_"):
        block, rest = layer.split("/", 1)
        return f"bert.encoder.layer.{block.removeprefix('encoder_block_')}.{_BLOCK[rest]}.{_LEAF[leaf]}"
    return f"{_REST[layer]}.{_LEAF[leaf]}"


def hf_value(path, values):
    """The value for the variable with this path: linear weights are transposed."""
    value = np.asarray(values[hf_name(path)])
    return value.T if path.endswith("/kernel") else value


def load_hf_weights(model, weights):
    """Sets every weight of a kbert model from arrays by Hugging Face name; none may be missing."""
    for variable in model.weights:
        if "seed_generator" not in variable.path:
            variable.assign(hf_value(variable.path, weights))
