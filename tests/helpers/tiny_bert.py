"""Tiny real models with a real tokenizer: odd sizes, ready in a moment."""

import numpy as np

from kbert import BertConfig, BertTokenizer

WORDS = ["the", "a", "film", "is", "good", "bad", "paris", "london", "france", "of", "capital", "was", "never", "very"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##ly", ".", "!", "é", "中"]
TEXTS = ["The film is good.", "A very bad film!", "", "paris \U0001f600 unknown é 中 " * 9]
PAIRS = ["Good?", "never never never never never never never never never", "the capital of France", ""]


def tiny_tokenizer(**arguments):
    return BertTokenizer(VOCABULARY, **arguments)


def tiny_config(**fields):
    sizes = dict(vocabulary_size=len(VOCABULARY), max_sequence_length=19)
    sizes |= dict(num_layers=2, hidden_dim=12, num_heads=3, intermediate_dim=20)
    return BertConfig(**(sizes | fields))


def randomise(model, seed=0, scale=0.7):
    """Weights large enough that different texts get clearly different answers."""
    rng = np.random.default_rng(seed)
    for variable in model.weights:
        is_bias = variable.path.endswith(("bias", "beta"))  # the same for every text: kept small
        variable.assign(rng.normal(variable.path.endswith("gamma"), 0.05 if is_bias else scale, variable.shape))
    return model
