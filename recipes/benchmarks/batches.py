"""The batches that the models are measured on, synthetic or real."""

import numpy as np

from kbert.training.repeated_batch import repeated_batch

STEPS = 10  # in one call of fit: its own start-up is not counted
UNCOUNTED = 3  # the first steps of a fit take up to twice as long


def synthetic_batch(settings, config):
    """One full batch of random token ids: no padding, every prediction slot used."""
    rng = np.random.default_rng(0)
    shape = (settings.batch_size, settings.sequence_length)
    slots = (settings.batch_size, settings.max_predictions)
    inputs = {
        "token_ids": rng.integers(0, config.vocabulary_size, shape).astype("int32"),
        "segment_ids": np.broadcast_to(np.arange(shape[1]) >= shape[1] // 2, shape).astype("int32"),
        "padding_mask": np.ones(shape, bool),
        "mask_positions": np.sort(rng.permuted(np.tile(np.arange(shape[1]), (shape[0], 1)), axis=1)[:, : slots[1]]),
    }
    inputs["mask_positions"] = inputs["mask_positions"].astype("int32")
    labels = {
        "mlm_logits": rng.integers(0, config.vocabulary_size, slots).astype("int32"),
        "nsp_logits": rng.integers(0, 2, shape[:1]).astype("int32"),
    }
    weights = {"mlm_logits": np.ones(slots, "float32"), "nsp_logits": np.ones(shape[:1], "float32")}
    return inputs, labels, weights


def batches(settings, config, steps=STEPS):
    """A dataset of `steps` + UNCOUNTED batches, synthetic or real; synthetic ones need no TensorFlow on JAX."""
    if settings.data == "real":
        from benchmarks.text import real_batches

        return real_batches(settings).take(steps + UNCOUNTED).cache()
    return repeated_batch(synthetic_batch(settings, config), steps + UNCOUNTED)
