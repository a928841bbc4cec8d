"""Tags of curves: their groups, their descriptions, and the charts of the Custom Scalars tab.

TensorBoard's Time Series tab sorts groups by name and opens the first two. These must be accuracy and loss, so the
names of all other groups come after them in the alphabet.
"""

import re

_LOSS = re.compile(r"loss|cross_entropy|perplexity|error|(^|_)(mse|mae)($|_)")
_OPTIMIZER = ("learning_rate", "gradient_norm")
_SPEED = re.compile(r"_per_second$|^(real_token_fraction|fraction_of_peak|peak_memory_gib|time_fraction|minutes)$")
DESCRIPTIONS = {  # Markdown; a tag without one says it all itself
    "accuracy/mlm_accuracy": "Masked-LM accuracy: the fraction of the masked tokens that are predicted right. "
    "The run `baseline` always predicts the most frequent token: a model that stays beside it has learned nothing "
    "from context.",
    "accuracy/nsp_accuracy": "Next-sentence accuracy: the fraction of the pairs whose label, IsNext or NotNext, "
    "is right. `baseline` always says the more frequent one.",
    "loss/loss": "The sum of the model's losses. Where the curve of `validation` rises while that of `train` falls, "
    "the model learns its training examples by heart.",
    "loss/mlm_loss": "Cross entropy of the masked tokens, in nats. `baseline` knows their frequencies alone.",
    "loss/mlm_cross_entropy": "Cross entropy of the masked tokens, in nats; comparable between runs of one vocabulary.",
    "optimizer/gradient_norm": "Norm of the whole gradient before it is clipped (at 1 by default). Rare peaks are "
    "usual; if it stays high or grows, lower the learning rate or warm up for longer.",
    "speed/tokens_per_second": "With padding.",
    "speed/real_tokens_per_second": "Without padding.",
    "speed/real_token_fraction": "The fraction of the tokens of a batch that are not padding.",
    "speed/fraction_of_peak": "The floating-point operations of the model's own matrix products, as a fraction of the "
    "peak that the device's maker states; nothing where that is not known, as for CPUs.",
    "speed/peak_memory_gib": "The most main memory that the process has used so far; on a GPU its own memory.",
}
LAYOUT = {  # category → title of a chart → regular expressions of its tags
    "Does it learn?": {
        "Loss: train, held out and baseline": [r"loss/(mlm_)?loss$"],
        "Next sentence loss": [r"loss/nsp_loss$"],
        "Scores: train, held out and baseline": [r"accuracy/"],
    },
    "Is it stable?": {
        "Learning rate": [r"optimizer/learning_rate$"],
        "Gradient norm before clipping": [r"optimizer/gradient_norm$"],
        "Gradient norm by layer": [r"norms/gradient/"],
        "Weight norm by layer": [r"norms/weight/"],
        "Update of a step as a fraction of the weights, by layer (about 0.001 is usual)": [r"norms/update_ratio/"],
    },
    "Is it fast?": {
        "Tokens a second, with and without padding": [r"speed/(real_)?tokens_per_second$"],
        "Fraction of the device's peak, fraction of real tokens": [r"speed/(fraction_of_peak|real_token_fraction)$"],
        "Memory, GiB": [r"speed/peak_memory_gib$"],
    },
    "Where does it look?": {"Mean entropy of attention by layer, nats": [r"self_attention/mean_entropy/"]},
}


def scalar_tag(name: str) -> str:
    """The tag of a number of the logs: group/name, with the name as in history.jsonl."""
    if name in _OPTIMIZER:
        return f"optimizer/{name}"
    if _SPEED.search(name):
        return f"speed/{name}"
    return f"loss/{name}" if _LOSS.search(name) else f"accuracy/{name}"
