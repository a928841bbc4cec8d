"""Makes google_*/ and google_values.npz: checkpoints that google-research/bert itself wrote, and what it computes.

    pip download --no-deps bert-tensorflow==1.0.1 && unzip bert_tensorflow-1.0.1-*.whl -d original
    python tests/golden/google_make.py original

The package is Google's repository as published in January 2019, for TensorFlow 1. It runs here under tf.compat.v1; the
few functions that TensorFlow 2 no longer has (tf.contrib's layer_norm, tf.layers.dense) are supplied below, with the
names their variables had. Sizes are odd and all different; weights are random, biases and LayerNorms included; no
dropout.

Pre-training: `STEPS_BEFORE` steps of its create_optimizer, then the checkpoint with all slots, then `STEPS_AFTER` more,
of which the losses and the final variables are kept.
"""

import importlib
import json
import pathlib
import subprocess
import sys
import types

import numpy as np

HERE = pathlib.Path(__file__).parent
CONFIG = {
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 12,
    "initializer_range": 0.02,
    "intermediate_size": 20,
    "max_position_embeddings": 13,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 29,
}
VOCABULARY = (
    "[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] . , ? the a of to in and is was paris france london city big small"
)
VOCABULARY = [*VOCABULARY.split(), "##s", "##ed", "##ing", "river", "old", "new"]
BATCH, LENGTH, PREDICTIONS, LABELS = 4, 11, 3, 5
STEPS_BEFORE, STEPS_AFTER, PEAK, WARMUP, TOTAL = 3, 4, 1e-2, 2, 10


def make_batches(count, seed=0):
    """Batches of random tokens: rows of different lengths, the first one full; the last slot of each row is unused."""
    rng = np.random.default_rng(seed)
    batches = []
    for _ in range(count):
        lengths = rng.integers(4, LENGTH + 1, BATCH)
        lengths[0] = LENGTH
        batches.append(
            {
                "token_ids": rng.integers(0, CONFIG["vocab_size"], (BATCH, LENGTH)).astype("int32"),
                "segment_ids": rng.integers(0, 2, (BATCH, LENGTH)).astype("int32"),
                "padding_mask": np.arange(LENGTH) < lengths[:, None],
                "mask_positions": np.sort(rng.integers(0, lengths[:, None], (BATCH, PREDICTIONS))).astype("int32"),
                "mask_ids": rng.integers(0, CONFIG["vocab_size"], (BATCH, PREDICTIONS)).astype("int32"),
                "mask_weights": np.tile(np.float32([1, 1, 0]), (BATCH, 1)),
                "next_sentence_label": rng.integers(0, 2, BATCH).astype("int32"),
            }
        )
    return batches


def _tensorflow_1():
    """tf.compat.v1 as the module `tensorflow`, with what the original uses and TensorFlow 2 lacks."""
    import tensorflow.compat.v1 as tf

    def dense(inputs, units, activation=None, name=None, kernel_initializer=None):
        with tf.variable_scope(name, default_name="dense"):
            kernel = tf.get_variable("kernel", [inputs.shape[-1].value, units], initializer=kernel_initializer)
            bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        outputs = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
        return outputs if activation is None else activation(outputs)

    def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope=None):
        with tf.variable_scope(scope, default_name="LayerNorm"):
            beta = tf.get_variable("beta", inputs.shape[-1:], initializer=tf.zeros_initializer())
            gamma = tf.get_variable("gamma", inputs.shape[-1:], initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, variance_epsilon=1e-12)

    tf.disable_v2_behavior()
    tf.enable_resource_variables()  # with the older kind, the step may count up before the learning rate has read it
    module = types.ModuleType("tensorflow")
    module.__dict__.update({name: getattr(tf, name) for name in dir(tf)})
    module.layers = types.SimpleNamespace(dense=dense)
    module.contrib = types.SimpleNamespace(layers=types.SimpleNamespace(layer_norm=layer_norm))
    sys.modules["tensorflow"] = module
    return module


def _initialise(tf, session):
    """Random values for all weights, large enough to matter."""
    session.run(tf.global_variables_initializer())
    rng = np.random.default_rng(1)
    for variable in tf.trainable_variables():
        centre = 1.0 if variable.name.endswith("gamma:0") else 0.0
        variable.load(rng.normal(centre, 0.3, variable.shape.as_list()).astype("float32"), session)


def _save(tf, session, name):
    directory = HERE / f"google_{name}"
    directory.mkdir(exist_ok=True)
    tf.train.Saver().save(session, str(directory / "bert_model.ckpt"), write_meta_graph=False, write_state=False)
    (directory / "bert_config.json").write_text(json.dumps(CONFIG, indent=2, sort_keys=True) + "\n")
    (directory / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")


def _placeholders(tf, batch):
    return {name: tf.placeholder(tf.as_dtype(v.dtype), v.shape, name) for name, v in batch.items()}


def _fed(inputs, batch):
    return {inputs[name]: value for name, value in batch.items()}


def pretraining():
    """run_pretraining.py: outputs at the checkpoint, then more steps."""
    tf = _tensorflow_1()
    modeling, optimization, run = (
        importlib.import_module(f"bert.{name}") for name in ("modeling", "optimization", "run_pretraining")
    )
    batches = make_batches(STEPS_BEFORE + STEPS_AFTER)
    config, inputs = modeling.BertConfig.from_dict(CONFIG), _placeholders(tf, batches[0])
    mask = tf.cast(inputs["padding_mask"], tf.int32)
    # One-hot embeddings, as on the TPUs that BERT was trained on. Without them the gradient of the word table is a list
    # of rows, of which TensorFlow's clip_by_global_norm takes the norm before rows of the same token are added up.
    model = modeling.BertModel(config, True, inputs["token_ids"], mask, inputs["segment_ids"], True)
    masked_lm_loss, _, masked_lm = run.get_masked_lm_output(
        config,
        model.get_sequence_output(),
        model.get_embedding_table(),
        inputs["mask_positions"],
        inputs["mask_ids"],
        inputs["mask_weights"],
    )
    next_sentence_loss, _, next_sentence = run.get_next_sentence_output(
        config, model.get_pooled_output(), inputs["next_sentence_label"][:, None]
    )
    loss = masked_lm_loss + next_sentence_loss
    train = optimization.create_optimizer(loss, PEAK, TOTAL, WARMUP, use_tpu=False)
    with tf.Session() as session:
        _initialise(tf, session)
        for batch in batches[:STEPS_BEFORE]:
            session.run(train, _fed(inputs, batch))
        _save(tf, session, "pretraining")
        outputs = {
            "hidden_states": tf.stack([model.get_embedding_output(), *model.get_all_encoder_layers()]),
            "pooled_output": model.get_pooled_output(),
            "mlm_log_probs": tf.reshape(masked_lm, [BATCH, PREDICTIONS, -1]),
            "nsp_log_probs": next_sentence,
        }
        values = session.run(outputs, _fed(inputs, batches[0]))
        losses = [session.run([loss, train], _fed(inputs, batch))[0] for batch in batches[STEPS_BEFORE:]]
        values["losses"] = np.float32(losses)
        for variable in tf.global_variables():
            values[f"final/{variable.name.removesuffix(':0')}"] = session.run(variable)
    return values


def classifier():
    """run_classifier.py's create_model."""
    tf = _tensorflow_1()
    modeling, run = (importlib.import_module(f"bert.{name}") for name in ("modeling", "run_classifier"))
    batch = {k: v for k, v in make_batches(1)[0].items() if k in ("token_ids", "segment_ids", "padding_mask")}
    inputs = _placeholders(tf, batch)
    mask, labels = tf.cast(inputs["padding_mask"], tf.int32), tf.zeros([BATCH], tf.int32)
    config = modeling.BertConfig.from_dict(CONFIG)
    logits = run.create_model(config, False, inputs["token_ids"], mask, inputs["segment_ids"], labels, LABELS, False)[2]
    with tf.Session() as session:
        _initialise(tf, session)
        _save(tf, session, "classifier")
        return {"logits": session.run(logits, _fed(inputs, batch))}


def squad():
    """run_squad.py's create_model."""
    tf = _tensorflow_1()
    modeling, run = (importlib.import_module(f"bert.{name}") for name in ("modeling", "run_squad"))
    batch = {k: v for k, v in make_batches(1)[0].items() if k in ("token_ids", "segment_ids", "padding_mask")}
    inputs = _placeholders(tf, batch)
    mask = tf.cast(inputs["padding_mask"], tf.int32)
    config = modeling.BertConfig.from_dict(CONFIG)
    start, end = run.create_model(config, False, inputs["token_ids"], mask, inputs["segment_ids"], False)
    with tf.Session() as session:
        _initialise(tf, session)
        _save(tf, session, "squad")
        start, end = session.run([start, end], _fed(inputs, batch))
        return {"start_logits": start, "end_logits": end}


def main():
    original, *task = sys.argv[1:]
    if task:  # one process each: its scripts define the same flags
        sys.path.insert(0, original)
        values = {"pretraining": pretraining, "classifier": classifier, "squad": squad}[task[0]]()
        np.savez(f"{task[1]}", **{f"{task[0]}/{name}": value for name, value in values.items()})
        return
    gathered = {}
    for name in ("pretraining", "classifier", "squad"):
        part = HERE / f"google_{name}.part.npz"
        subprocess.run([sys.executable, __file__, original, name, str(part)], check=True)
        with np.load(part) as values:
            gathered |= dict(values)
        part.unlink()
    np.savez_compressed(HERE / "google_values.npz", **gathered)
    for path in sorted(HERE.glob("google_*/*")) + [HERE / "google_values.npz"]:
        print(f"{path.relative_to(HERE)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
