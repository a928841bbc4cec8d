"""The model parts of benchmark.py: one pre-training step, and encoding."""

import itertools
import statistics
import time

import keras
import numpy as np
import tensorflow as tf
from benchmark_race import race, summary
from benchmark_text import prose_lines, vocabulary

from kbert import AdamW, BertConfig, BertEncoder, BertPretrainer, BertTokenizer
from kbert.optim.schedule import WarmupLinearDecay
from kbert.pretraining.dataset import pretraining_dataset
from kbert.training.flops import inference_flops_per_token, training_flops_per_token
from kbert.training.hardware import choose_hardware

STEPS = 10  # in one call of fit: its own start-up is not counted, see _StepTimes
UNCOUNTED = 3  # the first steps of a fit are up to twice as slow


def synthetic_batch(args, config):
    """One full batch of random token ids: no padding, every prediction slot used."""
    rng = np.random.default_rng(0)
    shape = (args.batch_size, args.sequence_length)
    slots = (args.batch_size, args.predictions)
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


def batches(args, config):
    """A dataset of STEPS + UNCOUNTED batches, synthetic or real."""
    if args.data == "real":
        lines = [] if args.vocab else prose_lines(args)
        tokenizer = BertTokenizer(vocabulary(args, lines))
        dataset = pretraining_dataset(
            args.records or args.corpus, tokenizer, batch_size=args.batch_size,
            sequence_length=args.sequence_length, predictions=args.predictions,
        )  # fmt: skip
        return dataset.take(STEPS + UNCOUNTED).cache()
    batch = tf.data.Dataset.from_tensors(synthetic_batch(args, config))
    return batch.repeat(STEPS + UNCOUNTED)


class _StepTimes(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.perf_counter())

    def median(self):
        times = [b - a for a, b in itertools.pairwise(self.ends[UNCOUNTED - 1 :])]
        return statistics.median(times)


def train(args):
    """Pre-training steps through model.fit: forward, backward, clipping and the optimizer."""
    config = BertConfig.from_size(args.size)
    hardware = choose_hardware(strategy="one", precision=args.precision, xla=args.xla)
    model = BertPretrainer(config)
    model.compile(
        AdamW(WarmupLinearDecay(1e-4, 10_000, 1_000_000)),
        jit_compile=hardware.jit_compile,
    )
    dataset = batches(args, config)
    real_share = np.mean([batch[0]["padding_mask"].mean() for batch in dataset.as_numpy_iterator()])
    models = {"kbert": (model, dataset)}
    if args.peers:
        models["keras_hub.BertMaskedLM"] = (_hub_masked_lm(config, hardware), dataset.map(_without_next_sentence))
    tokens = args.batch_size * args.sequence_length
    rates = _step_rates(models, tokens, args)
    flops = training_flops_per_token(config, args.sequence_length, args.predictions)
    result = summary({name: (rate, rate * real_share) for name, rate in rates.items()})
    return result | {"gflops_per_second": result["tokens_per_second"] * flops / 1e9, **_settings(args)}


def _step_rates(models, tokens, args):
    """Median nominal tokens/s of each model's steady steps; the models take turns."""
    rates = {name: [] for name in models}
    for number in range(args.rounds + 1):
        for name, (model, dataset) in models.items():
            times = _StepTimes()
            model.fit(dataset, verbose=0, callbacks=[times])
            if number:  # the first round traces and allocates
                rates[name].append(tokens / times.median())
                print(f"round {number}/{args.rounds}  {name:28s} {rates[name][-1]:14,.0f} tokens/s", flush=True)
    return {name: statistics.median(samples) for name, samples in rates.items()}


def _hub_masked_lm(config, hardware):
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=config.vocabulary_size, num_layers=config.num_layers, num_heads=config.num_heads,
        hidden_dim=config.hidden_dim, intermediate_dim=config.intermediate_dim,
    )  # fmt: skip
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


def encode(args):
    """The encoder's forward pass on one batch, pooler included."""
    config = BertConfig.from_size(args.size)
    hardware = choose_hardware(strategy="one", precision=args.precision, xla=args.xla)
    inputs = next(batches(args, config).as_numpy_iterator())[0]
    inputs = {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    tokens = inputs["padding_mask"].size, int(inputs["padding_mask"].sum())  # nominal, real
    systems = {"kbert": _forward(BertEncoder(config), inputs, hardware.jit_compile, tokens)}
    if args.peers:
        systems |= _encoder_peers(config, inputs, hardware.jit_compile, tokens)
    result = summary(race(systems, args.seconds, args.rounds))
    flops = inference_flops_per_token(config, args.sequence_length)
    return result | {"gflops_per_second": result["tokens_per_second"] * flops / 1e9, **_settings(args)}


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
        vocabulary_size=config.vocabulary_size, num_layers=config.num_layers, num_heads=config.num_heads,
        hidden_dim=config.hidden_dim, intermediate_dim=config.intermediate_dim,
    )  # fmt: skip
    peers = {"keras_hub.BertBackbone": _forward(hub, inputs, jit_compile, tokens)}
    try:
        import torch
        import transformers
    except ImportError:
        print("transformers on torch is not installed: pip install torch transformers")
        return peers
    model = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=config.vocabulary_size, hidden_size=config.hidden_dim, num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads, intermediate_size=config.intermediate_dim,
        )
    ).eval()  # fmt: skip
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


def _settings(args):
    names = ("size", "batch_size", "sequence_length", "predictions", "precision", "data")
    return {name: getattr(args, name) for name in names}
