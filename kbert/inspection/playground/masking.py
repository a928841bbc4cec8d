"""The view of masking: which tokens are chosen, what replaces them, and what a model predicts there.

Shapes: S sequence, P predictions, V vocabulary.
"""

import numpy as np
import tensorflow as tf

from kbert.answers.pretraining import FillMaskAnswers
from kbert.inspection.playground.plain_values import as_arrays, rounded
from kbert.inspection.playground.request_fields import BadRequest
from kbert.inspection.playground.token_rows import read_row
from kbert.pretraining.masking import TokenMasking
from kbert.stateless_random import fold_in

FIELDS = (
    "text",
    "text_pair",
    "mask_rate",
    "mask_token_rate",
    "random_token_rate",
    "whole_word",
    "seed",
    "max_predictions",
)
_TOP = 5
_CAUSAL = (
    "A left-to-right model is not asked for these tokens: it never sees a [MASK], and was trained to predict every "
    "token from those before it."
)


def masking(models, fields) -> dict:
    """Masks a text with `TokenMasking`, the layer of the training data, under the key ``fold_in(seed, 0)``.

    A token whose random replacement is itself counts as kept, as the model sees it. ``note`` says
    why a model that predicts tokens does not predict these, or is None.
    """
    model = models.open(fields.model())
    text, text_pair = fields.text("text"), fields.optional_text("text_pair")
    rates = _rates(fields)
    whole_word, seed = fields.boolean("whole_word", False), fields.integer("seed", 0)
    most = fields.integer("max_predictions", None, 1, 1_000_000)
    tokens, batch, truncated = read_row(model, text, text_pair)
    most = len(tokens) if most is None else min(most, len(tokens))  # a higher limit changes nothing
    layer = TokenMasking(model.tokenizer, most, whole_word=whole_word, **rates)
    inputs, mask_ids, mask_weights = layer.call(batch, keys=fold_in(seed, tf.zeros([1], tf.int64)))
    chosen = int(tf.reduce_sum(mask_weights))
    positions = inputs["mask_positions"][0, :chosen].numpy().tolist()
    special = (model.tokenizer.cls_id, model.tokenizer.sep_id)
    read = inputs["token_ids"][0].numpy().tolist()
    counts = {"chosen": chosen, "masked": 0, "random": 0, "kept": 0}
    counts["candidates"] = sum(token["id"] not in special for token in tokens)
    vocabulary = model.tokenizer.vocabulary
    for token, now in zip(tokens, read, strict=True):
        token |= {"corrupted": vocabulary[now], "kind": "not chosen", "label": None}
        token |= {"predictions": None, "label_probability": None}
    for position in positions:
        token, now = tokens[position], read[position]
        if now == token["id"]:
            kind, counted = "kept", "kept"
        else:
            kind, counted = ("[MASK]", "masked") if now == model.tokenizer.mask_id else ("random", "random")
        counts[counted] += 1
        token |= {"kind": kind, "label": token["token"]}
    predicts, loss = model.has_output("mlm_logits"), None
    if chosen and predicts and not model.is_causal:
        inputs |= {"mask_positions": inputs["mask_positions"][:, :chosen]}
        loss = _predict(model, inputs, mask_ids[:, :chosen], [tokens[position] for position in positions])
    note = _CAUSAL if predicts and model.is_causal else None
    return {"tokens": tokens, "counts": counts, "loss": loss, "truncated": truncated, "note": note}


def _rates(fields):
    mask_rate = fields.share("mask_rate", 0.15)
    mask_token_rate = fields.share("mask_token_rate", 0.8)
    random_token_rate = fields.share("random_token_rate", 0.1)
    keep_rate = 1.0 - mask_token_rate - random_token_rate
    if keep_rate < -1e-6:
        raise BadRequest(
            "`mask_token_rate` and `random_token_rate`: expected shares that add up to at most 1. "
            f"Received: {mask_token_rate:g} and {random_token_rate:g}"
        )
    rates = {"mask_token_rate": mask_token_rate, "random_token_rate": random_token_rate}
    return rates | {"mask_rate": mask_rate, "keep_rate": max(keep_rate, 0.0)}


def _predict(model, inputs, mask_ids, chosen):
    """Adds the model's predictions to the chosen tokens, and returns the row's loss, as in training."""
    logits = model.outputs(inputs)["mlm_logits"]  # [1, P, V]
    top = min(_TOP, logits.shape[-1])
    answers = FillMaskAnswers(model.tokenizer, top)
    (row,) = answers.to_dicts(as_arrays(answers.call({"mlm_logits": logits}, {"count": [len(chosen)]})))
    labels = mask_ids[0].numpy()
    shares = tf.nn.softmax(logits[0]).numpy()[np.arange(len(labels)), labels]
    for token, proposals, share in zip(chosen, row["masks"], rounded(shares), strict=True):
        token |= {"predictions": proposals, "label_probability": share}
    return rounded(model.masked_lm_loss(mask_ids, logits))
