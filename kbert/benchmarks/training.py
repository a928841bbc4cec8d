"""Pre-training steps through `model.fit`."""

import itertools
import logging
import statistics
import time

import keras
import numpy as np

from kbert.benchmarks.batches import STEPS, UNCOUNTED, batches
from kbert.benchmarks.race import summary
from kbert.config import BertConfig
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training.flops import training_flops_per_token
from kbert.training.hardware import choose_hardware

_LOGGER = logging.getLogger("kbert")


class _StepTimes(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        if keras.backend.backend() == "tensorflow":
            self.ends.append(time.perf_counter())
        elif batch + 1 in (UNCOUNTED, STEPS + UNCOUNTED):  # JAX returns before a step is done
            float(logs["loss"])
            self.ends.append(time.perf_counter())

    def median(self):
        """Seconds of a step: of JAX's the mean, as waiting for each would leave the device idle between them."""
        if keras.backend.backend() != "tensorflow":
            return (self.ends[1] - self.ends[0]) / STEPS
        times = [b - a for a, b in itertools.pairwise(self.ends[UNCOUNTED - 1 :])]
        return statistics.median(times)


def train(settings):
    """Pre-training steps through `model.fit`: forward, backward, clipping and the optimizer.

    Args:
        settings: `BenchmarkSettings`.

    Returns:
        dict of tokens per second, GFLOP/s and the settings.
    """
    dropout = (
        {} if settings.dropout is None else dict.fromkeys(("hidden_dropout", "attention_dropout"), settings.dropout)
    )
    config = BertConfig.from_size(settings.size, **dropout)
    hardware = choose_hardware(strategy="one", precision=settings.precision, xla=settings.xla)
    model = BertPretrainer(config)
    model.compile(AdamW(WarmupLinearDecay(1e-4, 10_000, 1_000_000)), jit_compile=hardware.jit_compile)
    dataset = batches(settings, config)
    real_share = np.mean([batch[0]["padding_mask"].mean() for batch in dataset.as_numpy_iterator()])
    models = {"kbert": (model, dataset)}
    if settings.peers:
        models["keras_hub.BertMaskedLM"] = (_hub_masked_lm(config, hardware), dataset.map(_without_next_sentence))
    tokens = settings.batch_size * settings.sequence_length
    rates = _step_rates(models, tokens, settings)
    flops = training_flops_per_token(config, settings.sequence_length, settings.max_predictions)
    result = summary({name: (rate, rate * real_share) for name, rate in rates.items()})
    return result | {"gflops_per_second": result["tokens_per_second"] * flops / 1e9, **settings.of_model()}


def _step_rates(models, tokens, settings):
    """Median nominal tokens/s of each model's steady steps; the models take turns."""
    rates = {name: [] for name in models}
    for number in range(settings.rounds + 1):
        for name, (model, dataset) in models.items():
            times = _StepTimes()
            model.fit(dataset, verbose=0, callbacks=[times])
            if number:  # the first round traces and allocates
                rates[name].append(tokens / times.median())
                speed = f"{rates[name][-1]:14,.0f} tokens/s"
                _LOGGER.info("round %d/%d  %-28s %s", number, settings.rounds, name, speed)
    return {name: statistics.median(samples) for name, samples in rates.items()}


def _hub_masked_lm(config, hardware):
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.intermediate_dim,
    )
    model = keras_hub.models.BertMaskedLM(backbone=backbone, preprocessor=None)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
        jit_compile=hardware.jit_compile,
    )
    return model


def _without_next_sentence(inputs, labels, weights):
    return inputs, labels["mlm_logits"], weights["mlm_logits"]
