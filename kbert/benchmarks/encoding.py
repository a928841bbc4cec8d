"""The encoder's forward pass."""

import tensorflow as tf

from kbert.benchmarks.batches import batches
from kbert.benchmarks.peak import PeakShares, model_products
from kbert.benchmarks.peers import fastest_peers
from kbert.benchmarks.race import fastest_setting, race, summary, timed
from kbert.models.encoder import BertEncoder
from kbert.training.flops import inference_flops_per_token
from kbert.training.hardware import choose_hardware


def encode(settings):
    """The encoder's forward pass on one batch, pooler included.

    Args:
        settings: `BenchmarkSettings`.

    Returns:
        dict of tokens per second, GFLOP/s, its share of the peak and of the model's own products (`PeakShares`), and
        the settings; with `settings.peers` the peers' speeds too.
    """
    config = settings.config()
    hardware = choose_hardware(strategy="one", precision=settings.precision, xla=settings.xla)
    inputs = next(batches(settings, config).as_numpy_iterator())[0]
    inputs = {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    tokens = inputs["padding_mask"].size, int(inputs["padding_mask"].sum())  # nominal, real

    def hub_runner(jit_compile):
        return _forward(_hub_backbone(config), inputs, jit_compile, tokens)

    def torch_runner(peer):
        return lambda seconds: [(tokens[0] / t, tokens[1] / t) for t in peer.seconds(seconds=seconds)]

    encoder = BertEncoder(config)
    name = "keras_hub.BertBackbone"
    shares = PeakShares(model_products(config, settings.batch_size, settings.sequence_length), settings.precision)
    with fastest_peers("encode", settings, config, name, hub_runner, torch_runner) as (peers, chosen):
        if settings.peers and settings.xla == "auto":  # as for keras-hub
            ways = {f"XLA {'on' if jit else 'off'}": _forward(encoder, inputs, jit, tokens) for jit in (False, True)}
            chosen = {"kbert": fastest_setting("kbert", ways, settings.seconds)} | chosen
            kbert = ways[chosen["kbert"]]
        else:
            kbert = _forward(encoder, inputs, hardware.jit_compile, tokens)
        shares.measure(settings.seconds)
        result = summary(race({"kbert": kbert} | peers, settings.seconds, settings.rounds))
        shares.measure(settings.seconds)
    speed = result["tokens_per_second"] * inference_flops_per_token(config, settings.sequence_length) / 1e9
    result |= {"gflops_per_second": speed} | shares.summary(speed)
    return result | {"peer_settings": chosen} | settings.of_model()


def _forward(model, inputs, jit_compile, tokens):
    compiled = tf.function(lambda x: model(x, training=False), jit_compile=bool(jit_compile))
    tensors = {name: tf.constant(value) for name, value in inputs.items()}

    def work():
        compiled(tensors)["sequence_output"].numpy()
        return tokens

    return timed(work)


def _hub_backbone(config):
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.intermediate_dim,
    )
