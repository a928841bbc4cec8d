"""Pre-training steps through `model.fit`."""

import functools
import itertools
import time

import keras
import numpy as np

from benchmarks.batches import STEPS, UNCOUNTED, batches
from benchmarks.peak import model_products, race_at_peak, with_gradients
from benchmarks.peers import fastest_peers, hub_backbone
from benchmarks.race import with_and_without_xla
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training.flops import training_flops_per_token


class _StepTimes(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        if keras.backend.backend() == "tensorflow":
            self.ends.append(time.perf_counter())
        elif batch + 1 in (UNCOUNTED, STEPS + UNCOUNTED):  # JAX returns before a step is done
            float(logs["loss"])
            self.ends.append(time.perf_counter())


def train(settings):
    """Pre-training steps through `model.fit`: forward, backward, clipping and the optimizer.

    Returns:
        dict of tokens per second, GFLOP/s, its share of the peak and of the model's own products (`PeakShares`), and
        the settings; with `settings.peers` the peers' speeds too.
    """
    config = settings.config()
    hardware = settings.hardware()
    model = BertPretrainer(config)
    model.compile(AdamW(WarmupLinearDecay(1e-4, 10_000, 1_000_000)), jit_compile=hardware.jit_compile)
    dataset = batches(settings, config)
    real_share = np.mean([batch[0]["padding_mask"].mean() for batch in dataset.as_numpy_iterator()])
    tokens = settings.batch_size * settings.sequence_length

    def rates(times):
        return [(tokens / seconds, real_share * tokens / seconds) for seconds in times]

    def hub_runner(jit_compile):
        hub = _hub_masked_lm(config, jit_compile)
        return lambda seconds: rates(_step_times(hub, dataset.map(_without_next_sentence)))

    def torch_runner(peer):
        return lambda seconds: rates(peer.seconds(units=STEPS if seconds else UNCOUNTED))

    kbert = {"kbert": lambda seconds: rates(_step_times(model, dataset))}
    hub = "keras_hub.BertMaskedLM", functools.partial(with_and_without_xla, hub_runner)
    sizes = settings.sequence_length, settings.max_predictions
    products = with_gradients(model_products(config, settings.batch_size, *sizes))
    with fastest_peers("train", settings, config, *hub, torch_runner) as (peers, chosen):
        result = race_at_peak(kbert | peers, settings, products, training_flops_per_token(config, *sizes))
    return result | {"peer_settings": chosen}


def _step_times(model, dataset):
    """Seconds of each steady step of one call of `fit`.

    Of JAX's only the mean, as waiting for each would leave the device idle between them.
    """
    times = _StepTimes()
    model.fit(dataset, verbose=0, callbacks=[times])
    if keras.backend.backend() != "tensorflow":
        return [(times.ends[1] - times.ends[0]) / STEPS]
    return [b - a for a, b in itertools.pairwise(times.ends[UNCOUNTED - 1 :])]


def _hub_masked_lm(config, jit_compile):
    import keras_hub

    model = keras_hub.models.BertMaskedLM(backbone=hub_backbone(config), preprocessor=None)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy()],
        jit_compile=jit_compile,
    )
    return model


def _without_next_sentence(inputs, labels, weights):
    return inputs, labels["mlm_logits"], weights["mlm_logits"]
