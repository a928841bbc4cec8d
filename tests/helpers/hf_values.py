"""The golden outputs of transformers, to compare a model with."""

import functools

import keras
import numpy as np
from golden.hf_make import make_batch

import kbert
from helpers.hf_directory import GOLDEN


def values(prefix=""):
    """What transformers computed, by name."""
    with np.load(GOLDEN / "hf_values.npz") as file:
        return {name.removeprefix(prefix): file[name] for name in file if name.startswith(prefix)}


@functools.cache
def _encoder(config):
    return kbert.BertEncoder(config, outputs=("hidden_states", "pooled_output"))


def check_outputs(model, wanted, atol=1e-5):
    """A pre-training model's outputs and hidden states are those wanted."""
    batch, encoder = make_batch(), _encoder(model.config)
    for variable, value in zip(encoder.weights, model.encoder.weights, strict=True):
        variable.assign(value)
    rows = {name: batch[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    states = keras.ops.stack(encoder(rows, training=False)["hidden_states"])
    found = {**model(batch, training=False), "hidden_states": states}
    for name in ("hidden_states", "mlm_logits", "nsp_logits"):
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(found[name]), wanted[name], rtol=0, atol=atol, err_msg=name
        )
