"""`model.export`: what Keras users expect of it, with every weight stored once."""

import numpy as np
import pytest
import tensorflow as tf

from kbert import BertConfig, BertEncoder, BertMultipleChoice, BertPretrainer

CONFIG = BertConfig(vocabulary_size=31, num_layers=2, hidden_dim=12, num_heads=3, intermediate_dim=20)
IDS = np.random.default_rng(0).integers(5, 31, (3, 7)).astype("int32")


def _batch(leading=(), **more):
    ids = np.broadcast_to(IDS, (*leading, 3, 7)) if leading else IDS
    return {"token_ids": ids, "segment_ids": ids % 2, "padding_mask": ids > 7, **more}


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (BertEncoder(CONFIG), _batch()),
        (BertPretrainer(CONFIG), _batch(mask_positions=IDS[:, :2] % 7)),
        (BertMultipleChoice(CONFIG), _batch(leading=(2,))),
    ],
    ids=lambda value: getattr(value, "task", ""),
)
def test_every_weight_once_and_the_same_outputs(tmp_path, model, batch):
    model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    outputs = loaded.signatures["serving_default"](**{name: tf.constant(value) for name, value in batch.items()})
    for name, expected in model(batch).items():
        np.testing.assert_allclose(outputs[name], expected, atol=1e-6)
        np.testing.assert_allclose(loaded.serve(batch)[name], expected, atol=1e-6)
    stored = [name for name, _ in tf.train.list_variables(str(tmp_path / "variables/variables")) if "GRAPH" not in name]
    assert len(stored) <= len(model.variables)
    bytes_of_weights = sum(weight.numpy().nbytes for weight in model.weights)
    data = sum(path.stat().st_size for path in (tmp_path / "variables").glob("variables.data*"))
    assert bytes_of_weights <= data < 1.2 * bytes_of_weights + 4096
