"""google-research/bert's forward pass in float64 NumPy, after its modeling.py and run_*.py, as a reference.

It uses the checkpoint's own names and none of kbert's layers, name tables or configs, so that it can test them.

Shapes: B batch, S sequence, H hidden, A heads, D head width, P predictions, V vocabulary.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

_EPSILON = 1e-12


def google_forward(
    read: Callable[[str], np.ndarray], names: Collection[str], config: dict[str, Any], batch: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """What the original computes from a checkpoint, without dropout.

    Args:
        read: returns a tensor by its name in the checkpoint.
        names: the tensors in the checkpoint, which decide the heads that are computed.
        config: the content of ``bert_config.json``.
        batch: ``token_ids, segment_ids, padding_mask`` [B, S], and ``mask_positions`` [B, P] for the masked LM.

    Returns:
        ``hidden_states`` (layers + 1 of [B, S, H]), ``pooled_output`` [B, H], and for the heads in the checkpoint
        ``mlm_logits, nsp_logits, logits, start_logits, end_logits``.
    """

    def get(name):
        return np.asarray(read(name), dtype=np.float64)

    activation = {"gelu": _gelu, "relu": lambda x: np.maximum(x, 0.0), "tanh": np.tanh}[config["hidden_act"]]
    table = get("bert/embeddings/word_embeddings")
    states = [_embeddings(get, table, batch)]
    adder = (1.0 - batch["padding_mask"].astype(np.float64))[:, None, None, :] * -10000.0  # [B, 1, 1, S]
    for i in range(config["num_hidden_layers"]):
        states.append(
            _layer(get, f"bert/encoder/layer_{i}", states[-1], adder, config["num_attention_heads"], activation)
        )
    pooled = np.tanh(_dense(get, "bert/pooler/dense", states[-1][:, 0]))  # [B, H]
    outputs = {"hidden_states": states, "pooled_output": pooled}
    if "cls/predictions/output_bias" in names:
        x = np.take_along_axis(states[-1], batch["mask_positions"][:, :, None], axis=1)  # [B, P, H]
        x = activation(_dense(get, "cls/predictions/transform/dense", x))
        x = _layer_norm(get, "cls/predictions/transform/LayerNorm", x)
        outputs["mlm_logits"] = x @ table.T + get("cls/predictions/output_bias")  # [B, P, V]
    if "cls/seq_relationship/output_weights" in names:
        outputs["nsp_logits"] = _output(get, "cls/seq_relationship/", pooled)
    if "output_weights" in names:
        outputs["logits"] = _output(get, "", pooled)
    if "cls/squad/output_weights" in names:
        logits = _output(get, "cls/squad/", states[-1])  # [B, S, 2]
        outputs |= {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    return outputs


def _embeddings(get, table, batch):
    x = table[batch["token_ids"]] + get("bert/embeddings/token_type_embeddings")[batch["segment_ids"]]
    x = x + get("bert/embeddings/position_embeddings")[: x.shape[1]]
    return _layer_norm(get, "bert/embeddings/LayerNorm", x)


def _layer(get, scope, x, adder, num_heads, activation):
    batch, length, width = x.shape

    def heads(name):  # [B, A, S, D]
        return _dense(get, f"{scope}/attention/self/{name}", x).reshape(batch, length, num_heads, -1).swapaxes(1, 2)

    scores = heads("query") @ heads("key").swapaxes(2, 3) / np.sqrt(width // num_heads) + adder  # [B, A, S, S]
    probabilities = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    context = (probabilities @ heads("value")).swapaxes(1, 2).reshape(batch, length, width)
    attended = _dense(get, f"{scope}/attention/output/dense", context)
    x = _layer_norm(get, f"{scope}/attention/output/LayerNorm", x + attended)
    intermediate = activation(_dense(get, f"{scope}/intermediate/dense", x))
    return _layer_norm(get, f"{scope}/output/LayerNorm", x + _dense(get, f"{scope}/output/dense", intermediate))


def _dense(get, scope, x):
    return x @ get(f"{scope}/kernel") + get(f"{scope}/bias")


def _output(get, scope, x):
    return x @ get(f"{scope}output_weights").T + get(f"{scope}output_bias")


def _layer_norm(get, scope, x):
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
    return centred / deviation * get(f"{scope}/gamma") + get(f"{scope}/beta")


def _gelu(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
