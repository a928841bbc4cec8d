"""The encoder's forward pass.

Shapes: B batch, S sequence.
"""

import functools

import tensorflow as tf

from benchmarks.batches import batches
from benchmarks.peak import model_products, race_at_peak
from benchmarks.peers import fastest_peers, hub_backbone
from benchmarks.race import fastest_setting, timed, with_and_without_xla
from kbert.models.encoder import BertEncoder
from kbert.serving.frozen_weights import FrozenWeights
from kbert.training.flops import inference_flops_per_token


def encode(settings):
    """The encoder's forward pass on one batch, pooler included.

    Returns:
        dict of tokens per second, GFLOP/s, its share of the peak and of the model's own products (`PeakShares`), and
        the settings; with `settings.peers` the peers' speeds too.
    """
    config = settings.config()
    hardware = settings.hardware()
    inputs = encoder_inputs(settings)
    tokens = inputs["padding_mask"].size, int(inputs["padding_mask"].sum())  # nominal, real

    def runners(build):
        """With and without XLA and with weights as constants; in bfloat16, weights stored in float32 or in bfloat16."""
        found = {}
        for dtype in (None, "bfloat16") if settings.precision == "mixed_bfloat16" else (None,):
            model, stored = build(config, dtype=dtype), f", weights in {dtype}" if dtype else ""
            ways = with_and_without_xla(lambda jit, model=model: _forward(model, inputs, jit, tokens))
            ways["XLA off, frozen weights"] = _forward(model, inputs, False, tokens, frozen_weights=True)
            found |= {setting + stored: run for setting, run in ways.items()}
        return found

    def torch_runner(peer):
        return lambda seconds: [(tokens[0] / t, tokens[1] / t) for t in peer.seconds(seconds=seconds)]

    flops = inference_flops_per_token(config, settings.sequence_length)
    products = model_products(config, settings.batch_size, settings.sequence_length)
    hub = "keras_hub.BertBackbone", functools.partial(runners, hub_backbone)
    with fastest_peers("encode", settings, config, *hub, torch_runner) as (peers, chosen):
        if settings.peers and settings.xla == "auto":  # as for keras-hub
            ways = runners(BertEncoder)
            chosen = {"kbert": fastest_setting("kbert", ways, settings.seconds)} | chosen
            kbert = ways[chosen["kbert"]]
        else:
            kbert = _forward(BertEncoder(config), inputs, hardware.jit_compile, tokens)
        result = race_at_peak({"kbert": kbert} | peers, settings, products, flops)
    return result | {"peer_settings": chosen}


def encoder_inputs(settings) -> dict:
    """One batch of NumPy arrays: token_ids, segment_ids, padding_mask [B, S]."""
    inputs = next(batches(settings, settings.config()).as_numpy_iterator())[0]
    return {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}


def forward_pass(model, inputs, jit_compile=False, frozen_weights=False):
    """A function that encodes the batch and waits for the result; frozen weights are constants of its graph."""

    def forward(x):
        return model(x, training=False)

    forward = FrozenWeights(model.weights).freeze(forward) if frozen_weights else forward
    compiled = tf.function(forward, jit_compile=bool(jit_compile))
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return lambda: compiled(tensors)["sequence_output"].numpy()


def _forward(model, inputs, jit_compile, tokens, frozen_weights=False):
    call = forward_pass(model, inputs, jit_compile, frozen_weights)

    def work():
        call()
        return tokens

    return timed(work)
