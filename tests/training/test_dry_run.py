"""Estimates of a training: what a step is measured on."""

import pytest
import tensorflow as tf
from helpers.tiny_bert import tiny_config

import kbert
from kbert.training import dry_run


@pytest.mark.parametrize("flops", [1.0, 1e18])  # a part of the batch is measured, or the whole
def test_a_question_with_choices_counts_as_its_rows(monkeypatch, flops):
    shapes = {"token_ids": "int32", "segment_ids": "int32", "padding_mask": "bool"}
    batch = {name: tf.ones([4, 3, 9], kind) for name, kind in shapes.items()}, {"logits": tf.zeros([4], "int32")}
    model = kbert.BertMultipleChoice(tiny_config())
    model.compile()
    monkeypatch.setattr(dry_run, "_MEASURED_FLOPS", flops)
    monkeypatch.setattr(dry_run, "peak_bytes", lambda: 1000)
    rows = []

    def one_second_a_row(model, batch, examples):
        rows.append(3 * len(batch[0]["token_ids"][:examples]))
        return float(rows[-1])

    monkeypatch.setattr(dry_run, "seconds_per_step", one_second_a_row)
    found = dry_run.estimate_training(model, tf.data.Dataset.from_tensors(batch), 10)
    assert rows == [3 if flops == 1.0 else 12]
    assert (found["batch_size"], found["seconds_per_step"], found["seconds"]) == (12, 12.0, 120.0)
    assert found["tokens"] == 10 * 12 * 9
    of_a_row = 4 * 9 * 2 * (4 * 12 + 20)  # bytes: tokens, layers, hidden and intermediate sizes
    assert found["memory_bytes"] == 1000 + (6 * 9 * of_a_row if flops == 1.0 else 0)
