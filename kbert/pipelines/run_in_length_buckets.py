"""Runs a model on a batch of mixed lengths without padding every row to the longest.

Shapes: n rows of the batch (texts, or windows of texts), C choices, S sequence, A heads, g groups.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from kbert.preprocessing.buckets import BY_TOKEN

if TYPE_CHECKING:
    from kbert.answers.answers import Answers
    from kbert.models.bert_model import BertModel

# Rows of up to so many tokens run together; each group is trimmed to its own longest row.
_EDGES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
# No group holds more tokens than this, padding included, unless a single row does. Groups run one at a time, so that
# memory for hidden states does not grow with the number of windows or choices in a request.
_TOKENS = 8192
_NOT_BY_ROW = ("hidden_states", "attention_probs")  # lists, and [n, A, S, S]


def answer_batch(model: "BertModel", answers: "Answers", batch: Mapping[str, Any]) -> dict[str, Any]:
    """A model's answers to a batch. `kbert.Pipeline`, its predictions and a served model all get them here."""
    return answers(run_in_length_buckets(model, batch), batch)


def run_in_length_buckets(
    model: "BertModel", batch: Mapping[str, Any], token_outputs: Sequence[str] | None = None
) -> dict[str, Any]:
    """The model's outputs on a batch, computed in groups of rows of similar length, each trimmed to its longest row.

    The rows are sorted by length, run group by group in one loop of the graph, and put back in order. A group has at
    most 8,192 tokens, padding included (or a single row). Every choice of a multiple-choice batch is a separate row.
    The outputs equal those of ``model(batch)`` up to rounding, except at padding, where they have no meaning.

    Models that return hidden states or attention, read packed rows, or run on another backend get the whole batch.

    `batch` has ``padding_mask`` [n, S] or [n, C, S], tokens first. `token_outputs` names the outputs that have a value
    for every token, [n, S, ...]. None: the model's own ``token_outputs``.
    """
    inputs = {name: batch[name] for name in model.input}
    if not _applies(model):
        return model(inputs, training=False)
    if inputs["padding_mask"].shape.rank == 3:
        return _run_choices(model, inputs)
    token_outputs = model.token_outputs if token_outputs is None else token_outputs
    token_outputs = [name for name in token_outputs if name in model.output]
    lengths = tf.reduce_sum(tf.cast(inputs["padding_mask"], tf.int32), axis=-1)
    outputs = _run_groups(model, inputs, lengths, token_outputs)
    for name, value in outputs.items():
        value.set_shape(_static_shape(model, name, inputs, token_outputs))
    return outputs


def _run_choices(model, inputs):
    """Outputs [n, C] of a model with inputs [n, C, S]. Every choice runs as the only one of its row."""
    shape = tf.shape(inputs["padding_mask"])  # n, C, S
    rows = {name: tf.reshape(value, (shape[0] * shape[1], 1, shape[2])) for name, value in inputs.items()}
    lengths = tf.reduce_sum(tf.cast(rows["padding_mask"], tf.int32), axis=(1, 2))
    outputs = {name: tf.reshape(value, shape[:2]) for name, value in _run_groups(model, rows, lengths, ()).items()}
    for value in outputs.values():
        value.set_shape(inputs["padding_mask"].shape[:2])
    return outputs


def _run_groups(model, inputs, lengths, token_outputs):
    """The outputs for rows of these lengths [n], in their order."""
    order = tf.argsort(lengths, stable=True)  # [n]
    starts, ends = _groups(tf.gather(lengths, order))  # [g]
    names = sorted(model.output)

    def run(group, arrays):
        rows = order[starts[group] : ends[group]]
        outputs = _run(model, inputs, rows, tf.gather(lengths, rows), token_outputs)
        return group + 1, tuple(a.write(group, outputs[name]) for a, name in zip(arrays, names, strict=True))

    arrays = tuple(tf.TensorArray(model.output[name].dtype, size=tf.size(starts), infer_shape=False) for name in names)
    _, arrays = tf.while_loop(lambda group, _: group < tf.size(starts), run, (0, arrays), parallel_iterations=1)
    back = tf.math.invert_permutation(order)
    return {name: tf.gather(array.concat(), back) for name, array in zip(names, arrays, strict=True)}


def _applies(model):
    return (
        keras.backend.backend() == "tensorflow"
        and "padding_mask" in model.input
        and "part_ids" not in model.input  # packed rows have almost no padding
        and not any(name in model.output for name in _NOT_BY_ROW)
    )


def _run(model, inputs, rows, lengths, token_outputs):
    """The model on some rows, trimmed to their longest. Token outputs are padded to S again."""
    longest = tf.maximum(tf.reduce_max(lengths), 1)  # 1: a batch without rows still runs once
    if row_lengths := getattr(model, "row_lengths", ()):  # a plain keras.Model has none
        allowed = tf.constant(row_lengths)
        longest = tf.minimum(allowed[tf.searchsorted(allowed, longest[None])[0]], tf.shape(inputs["padding_mask"])[-1])
    bucket = {name: tf.gather(value, rows) for name, value in inputs.items()}
    bucket |= {name: bucket[name][..., :longest] for name in BY_TOKEN if name in bucket}
    outputs = dict(model(bucket, training=False))
    cut = tf.shape(inputs["padding_mask"])[-1] - longest
    for name in token_outputs:
        uncut = [[0, 0]] * (len(outputs[name].shape) - 2)
        outputs[name] = tf.pad(outputs[name], [[0, 0], [0, cut], *uncut])
    return outputs


def _groups(lengths):
    """Ascending lengths [n] → (starts, ends) int32 [g] of the groups. Without rows there is one empty group."""
    edges = tf.constant(_EDGES)
    rows = tf.constant([max(1, _TOKENS // edge) for edge in _EDGES] + [1])  # of a group
    edge = tf.searchsorted(edges, lengths)  # [n]
    position = tf.range(tf.size(edge)) - tf.searchsorted(edge, edge)  # [n] within its edge
    begins = position % tf.gather(rows, edge) == 0
    starts = tf.concat([[0], tf.cast(tf.where(begins[1:])[:, 0], tf.int32) + 1], axis=0)
    return starts, tf.concat([starts[1:], [tf.size(lengths)]], axis=0)


def _static_shape(model, name, inputs, token_outputs):
    shape = list(model.output[name].shape)
    shape[0] = inputs["padding_mask"].shape[0]
    if name in token_outputs:
        shape[1] = inputs["padding_mask"].shape[-1]
    elif name == "mlm_logits":
        shape[1] = inputs["mask_positions"].shape[1]
    return shape
