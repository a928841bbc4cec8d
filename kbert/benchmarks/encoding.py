"""The encoder's forward pass."""

import logging

import tensorflow as tf

from kbert.benchmarks.batches import batches
from kbert.benchmarks.race import race, summary
from kbert.config import BertConfig
from kbert.models.encoder import BertEncoder
from kbert.training.flops import inference_flops_per_token
from kbert.training.hardware import choose_hardware

_LOGGER = logging.getLogger("kbert")


def encode(settings):
    """The encoder's forward pass on one batch, pooler included.

    Args:
        settings: `BenchmarkSettings`.

    Returns:
        dict of tokens per second, GFLOP/s and the settings.
    """
    config = BertConfig.from_size(settings.size)
    hardware = choose_hardware(strategy="one", precision=settings.precision, xla=settings.xla)
    inputs = next(batches(settings, config).as_numpy_iterator())[0]
    inputs = {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    tokens = inputs["padding_mask"].size, int(inputs["padding_mask"].sum())  # nominal, real
    systems = {"kbert": _forward(BertEncoder(config), inputs, hardware.jit_compile, tokens)}
    if settings.peers:
        systems |= _encoder_peers(config, inputs, hardware.jit_compile, tokens)
    result = summary(race(systems, settings.seconds, settings.rounds))
    flops = inference_flops_per_token(config, settings.sequence_length)
    return result | {"gflops_per_second": result["tokens_per_second"] * flops / 1e9, **settings.of_model()}


def _forward(model, inputs, jit_compile, tokens):
    compiled = tf.function(lambda x: model(x, training=False), jit_compile=bool(jit_compile))
    tensors = {name: tf.constant(value) for name, value in inputs.items()}

    def work():
        compiled(tensors)["sequence_output"].numpy()
        return tokens

    return work


def _encoder_peers(config, inputs, jit_compile, tokens):
    import keras_hub

    hub = keras_hub.models.BertBackbone(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.intermediate_dim,
    )
    peers = {"keras_hub.BertBackbone": _forward(hub, inputs, jit_compile, tokens)}
    try:
        import torch
        import transformers
    except ImportError:
        _LOGGER.info("transformers on torch is not installed: pip install torch transformers")
        return peers
    model = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=config.vocabulary_size,
            hidden_size=config.hidden_dim,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=config.intermediate_dim,
        )
    ).eval()
    tensors = {
        "input_ids": torch.tensor(inputs["token_ids"], dtype=torch.long),
        "token_type_ids": torch.tensor(inputs["segment_ids"], dtype=torch.long),
        "attention_mask": torch.tensor(inputs["padding_mask"]),
    }

    def work():
        with torch.inference_mode():
            model(**tensors).last_hidden_state.numpy()
        return tokens

    return peers | {"transformers.BertModel": work}
