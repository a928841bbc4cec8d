"""Buckets: what is cut, what is kept, and that no output changes."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import TEXTS, randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.preprocessing.buckets import (
    BUCKETS,
    grouped_by_length,
    limit_batch_size,
    longest_first,
    padding_for,
    text_sizes,
    trim_padding,
    window_size,
)
from kbert.preprocessing.preprocessor import TextPreprocessor


def _batch(lengths, full, extra=()):
    mask = tf.sequence_mask(lengths, full)
    return {"padding_mask": mask, "token_ids": tf.cast(mask, tf.int32), **dict(extra)}


@pytest.mark.parametrize("longest", range(1, 41))
def test_the_longest_row_decides(longest):
    batch = _batch([1, longest, 1], 40)
    to_bucket, to_longest = trim_padding(batch, "bucket"), trim_padding(batch)
    expected = min([b for b in (16, 24, 32) if b >= longest], default=40)
    assert to_bucket["token_ids"].shape == to_bucket["padding_mask"].shape == (3, expected)
    assert to_longest["token_ids"].shape == to_longest["padding_mask"].shape == (3, -(-longest // 4) * 4)
    assert tf.reduce_sum(to_bucket["token_ids"]) == tf.reduce_sum(to_longest["token_ids"]) == 2 + longest
    assert trim_padding(batch, "full")["token_ids"].shape == (3, 40)


def test_a_batch_shorter_than_every_bucket_and_one_without_tokens():
    for padding, none in (("bucket", 16), ("longest", 4)):
        assert trim_padding(_batch([3, 9], 9), padding)["token_ids"].shape == (2, 9)
        assert trim_padding(_batch([0, 0], 20), padding)["token_ids"].shape == (2, none)
        assert trim_padding(_batch([0, 0], 3), padding)["token_ids"].shape == (2, 3)
        assert trim_padding(_batch([520], 600), padding)["token_ids"].shape == (1, 600 if none == 16 else 520)
    assert list(BUCKETS) == sorted(BUCKETS)
    with pytest.raises(ValueError, match="`padding` must be one of"):
        trim_padding(_batch([3], 9), "max_length")


def test_what_is_not_by_token_is_left_alone():
    """Whatever its shape: as many masks as positions is no reason to cut the places of the masks."""
    rows = {
        "mask_positions": tf.zeros((3, 40), tf.int32),
        "position_ids": tf.zeros((3, 40), tf.int32),
        "window_row": tf.range(3),
        "pairs": tf.zeros((3, 40, 2)),
        "other": tf.zeros((3, 7)),
    }
    batch = trim_padding(_batch([2, 5, 17], 40, rows), "bucket")
    shapes = {name: tuple(tensor.shape) for name, tensor in batch.items()}
    assert shapes == {
        "padding_mask": (3, 24),
        "token_ids": (3, 24),
        "window_row": (3,),
        "pairs": (3, 40, 2),
        "other": (3, 7),
        "mask_positions": (3, 40),
        "position_ids": (3, 24),
    }


def test_choices_share_one_length():
    mask = tf.sequence_mask([[1, 17], [3, 2]], 40)
    assert trim_padding({"padding_mask": mask})["padding_mask"].shape == (2, 2, 20)


def test_in_a_dataset_only_the_length_is_free():
    data = tf.data.Dataset.from_tensors(_batch([2, 20], 40)).map(trim_padding)
    assert data.element_spec["token_ids"].shape.as_list() == [2, None]
    assert next(iter(data))["token_ids"].shape == (2, 20)


def test_a_batch_size_beyond_the_rows():
    assert [limit_batch_size(32, n) for n in (0, 1, 31, 1000)] == [32] * 4
    assert [limit_batch_size(10**9, n) for n in (0, 1, 64, 65, 1000)] == [64, 64, 64, 128, 1024]


def test_longest_first_and_back():
    order, place = longest_first([3, 9, 5, 9])
    assert order.tolist() == [1, 3, 2, 0]  # equally long ones stay in order
    assert np.array([3, 9, 5, 9])[order][place].tolist() == [3, 9, 5, 9]


def test_sizes_of_columns():
    assert text_sizes([["ab", ""], ["c", "déf"]]).tolist() == [3, 3]
    assert text_sizes([["a", "b"], [["xy", "z"], ["", ""]]]).tolist() == [4, 1]


def test_grouping_deals_every_row_once():
    def rows(start_step):
        return tf.data.Dataset.range(3 * start_step, tf.int64.max).map(lambda n: tf.cast(n % 48, tf.int32))

    sizes = np.random.default_rng(0).permutation(48)
    batches = [b.numpy() for b in grouped_by_length(rows, sizes, batch_size=3, seed=1).take(16)]
    assert sorted(np.concatenate(batches)) == list(range(48))
    for window in (slice(0, 4), slice(4, 8), slice(8, 12), slice(12, 16)):  # 16 batches an epoch
        in_order = np.sort(sizes[np.concatenate(batches[window])]).reshape(4, 3)
        assert sorted(sorted(sizes[batch]) for batch in batches[window]) == in_order.tolist()  # neighbours in length


def test_a_window_is_at_most_a_quarter_of_an_epoch_and_fifty_batches():
    sizes = [window_size(count, 32) for count in (1, 100, 2500, 3668, 67349)]
    assert sizes == [1, 1, 19, 28, 50]


LABELS = np.arange(8, dtype="int32") % 3
TASKS = {  # model, its arguments, labels [8] or by token [8, 40], which are cut with the batch
    "classification": (kbert.BertClassifier, {"num_labels": 3}, {"logits": LABELS}),
    "regression": (kbert.BertRegressor, {}, {"score": LABELS.astype("float32")}),
    "tagging": (kbert.BertTagger, {"num_labels": 3}, {"logits": np.tile(LABELS[:, None], (1, 40))}),
    "span": (kbert.BertSpanExtractor, {}, dict.fromkeys(("start_logits", "end_logits"), LABELS % 2)),
    "multiple_choice": (kbert.BertMultipleChoice, {}, {"logits": LABELS[:4] % 2}),
}


@pytest.mark.parametrize("task", TASKS)
def test_outputs_loss_and_gradients_are_those_of_padded_batches(task):
    model_class, arguments, labels = TASKS[task]
    config = tiny_config(max_sequence_length=40, hidden_dropout=0.0, attention_dropout=0.0, num_layers=1)
    model = randomise(model_class(config, **arguments), scale=0.3)
    padded = TextPreprocessor(tiny_tokenizer(), 40)([text[:20] for text in TEXTS] * 2)
    if task == "tagging":
        padded["weights"] = tf.cast(padded["padding_mask"], tf.float32)
    elif task == "span":
        lengths = tf.math.count_nonzero(padded["padding_mask"], axis=1, dtype=tf.int32)
        labels = {name: tf.stack([places, lengths], 1) for name, places in labels.items()}
    elif task == "multiple_choice":
        padded = {name: tf.reshape(value, (4, 2, 40)) for name, value in padded.items()}
    cut = trim_padding({name: tf.constant(value) for name, value in padded.items()}, "bucket")
    assert cut["token_ids"].shape[-1] == 16
    if task == "tagging":
        cut["weights"] = cut["weights"][:, :16]
    results = []
    for batch in (padded, cut):
        weight = batch.get("weights")
        with tf.GradientTape() as tape:
            outputs = model({name: batch[name] for name in model.input}, training=True)
            losses = [
                loss(labels[name] if weight is None else labels[name][:, : weight.shape[1]], outputs[name], weight)
                for name, loss in model.default_loss().items()
            ]
        variables = [v.value for v in model.trainable_variables]
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(losses, variables)]
        outputs = [value[:, :16] if tuple(value.shape[1:2]) == (40,) else value for value in outputs.values()]
        results.append((outputs, losses, gradients))
    for a, b in zip(*map(tf.nest.flatten, results), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


def test_on_a_tpu_every_batch_has_one_shape(monkeypatch):
    class Strategy:
        pass

    class Model:
        jit_compile, compiles_gradient = False, False
        distribute_strategy = Strategy()

    assert padding_for(Model()) == "longest"
    monkeypatch.setattr(tf.distribute, "TPUStrategy", Strategy)
    assert padding_for(Model()) == "full"
