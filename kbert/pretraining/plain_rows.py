"""Pairs → masked rows with one pair each.

Shapes: B batch (rows), S sequence, P predictions.
"""

import tensorflow as tf

from kbert.text.packing import pack_ranges


def plain_rows(masking, values, table, *, sequence_length, next_sentence=True):
    """Lays out each pair in a row of its own, ``[CLS] A [SEP] B [SEP]``, and masks it.

    Args:
        values: dict of a pool's columns with one value per token: ``token_ids``, and ``entity_ids`` if there are any.
        table: `PairTable` of B pairs.
        next_sentence: bool; False: single segments, ``[CLS] A [SEP]``.

    Returns:
        (inputs, labels, weights), as `kbert.pretraining.pretraining_dataset` describes them.
    """
    inputs, mask_ids, mask_weights = mask_pairs(masking, values, table, sequence_length, next_sentence)
    labels, weights = {"mlm_logits": mask_ids}, {"mlm_logits": mask_weights}
    if next_sentence:
        labels["nsp_logits"] = tf.cast(table.is_random, tf.int32)
        weights["nsp_logits"] = tf.ones_like(table.is_random, tf.float32)
    return inputs, labels, weights


def mask_pairs(masking, values, table, sequence_length, next_sentence):
    """Each pair in a row of its own, masked: what `TokenMasking` returns. Arguments as for `plain_rows`."""
    tokenizer, ranges = masking.tokenizer, table[:4] if next_sentence else table[:2]
    special = {name: getattr(tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}
    batch, entity_ids = pack_ranges(values["token_ids"], *ranges, sequence_length=sequence_length, **special), None
    if "entity_ids" in values:
        zeros = dict.fromkeys(special, 0)
        entity_ids = pack_ranges(values["entity_ids"], *ranges, sequence_length=sequence_length, **zeros)["token_ids"]
    return masking.call(batch, keys=table.keys, entity_ids=entity_ids)
