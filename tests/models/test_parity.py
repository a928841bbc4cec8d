"""Every model equals Hugging Face's BERT with the same weights: hidden states, logits, gradients."""

import pathlib

import keras
import numpy as np
import pytest
from golden.make_bert import LABELS, SIZES, reference
from helpers.hf_bert import hf_value, load_hf_weights

from kbert.config import BertConfig
from kbert.models.classifier import BertClassifier
from kbert.models.encoder import OUTPUTS, BertEncoder
from kbert.models.multiple_choice import BertMultipleChoice
from kbert.models.pretrainer import BertPretrainer
from kbert.models.span_extractor import BertSpanExtractor
from kbert.models.tagger import BertTagger

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
BATCH_KEYS = ("token_ids", "segment_ids", "padding_mask")


class Case:
    """A config and the values that Hugging Face computed for it."""

    def __init__(self, values, sizes, activation):
        self.config = BertConfig(activation=activation, **sizes)
        self._values = {key: values[key] for key in values}

    def group(self, name):
        return {key.removeprefix(name + "/"): v for key, v in self._values.items() if key.startswith(name + "/")}

    def batch(self, prefix=""):
        inputs = self.group("inputs")
        return {key: inputs[prefix + key] for key in BATCH_KEYS}

    def run(self, model, batch):
        load_hf_weights(model, self.group("weights"))
        return keras.tree.map_structure(keras.ops.convert_to_numpy, model(batch, training=False))


@pytest.fixture(scope="module", params=["gelu_tanh", "gelu_erf"])
def case(request):
    with np.load(GOLDEN / f"bert_{request.param}.npz") as values:
        return Case(values, SIZES, request.param)


@pytest.fixture(scope="module", params=[(1, "gelu_tanh"), (2, "gelu_erf"), (3, "relu")])
def live_case(request):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    seed, activation = request.param
    rng = np.random.default_rng(seed)
    num_heads, head_dim = int(rng.integers(2, 5)), int(rng.integers(3, 6))
    sizes = SIZES | {
        "num_layers": int(rng.integers(1, 5)),
        "num_heads": num_heads,
        "hidden_dim": num_heads * head_dim,
        "intermediate_dim": int(rng.integers(21, 40)),
    }
    return Case(reference(sizes, activation, seed, batch=3 + seed, length=8 + seed), sizes, activation)


def assert_close(actual, expected, what):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5, err_msg=what)


def check_encoder(case):
    outputs, expected = case.run(BertEncoder(case.config, outputs=OUTPUTS), case.batch()), case.group("outputs")
    assert len(outputs["hidden_states"]) == case.config.num_layers + 1
    for i, state in enumerate(outputs["hidden_states"]):
        assert_close(state, expected["hidden_states"][i], f"hidden state {i}")  # padded rows too
    for i, probs in enumerate(outputs["attention_probs"]):
        assert_close(probs, expected["attention_probs"][i], f"attention probabilities {i}")
    assert_close(outputs["sequence_output"], expected["hidden_states"][-1], "sequence_output")
    assert_close(outputs["pooled_output"], expected["pooled_output"], "pooled_output")


def check_heads(case):
    expected = case.group("outputs")
    batch = case.batch()
    pretraining = case.run(
        BertPretrainer(case.config), batch | {"mask_positions": case.group("inputs")["mask_positions"]}
    )
    assert_close(pretraining["mlm_logits"], expected["mlm_logits"], "mlm_logits")
    assert_close(pretraining["nsp_logits"], expected["nsp_logits"], "nsp_logits")
    classification = case.run(BertClassifier(case.config, num_labels=LABELS), batch)
    assert_close(classification["logits"], expected["classification"], "classification")
    tagging = case.run(BertTagger(case.config, num_labels=LABELS), batch)
    assert_close(tagging["logits"], expected["tagging"], "tagging")
    span = case.run(BertSpanExtractor(case.config), batch)
    assert_close(span["start_logits"], expected["start_logits"], "start_logits")
    assert_close(span["end_logits"], expected["end_logits"], "end_logits")
    choice = case.run(BertMultipleChoice(case.config), case.batch("choice_"))
    assert_close(choice["logits"], expected["multiple_choice"], "multiple_choice")


def check_causal(case):
    config = BertConfig.from_dict(case.config.to_dict() | {"causal": True})
    batch = case.batch()
    outputs = case.run(BertEncoder(config), batch)
    real = batch["padding_mask"]
    assert_close(outputs["sequence_output"][real], case.group("outputs")["causal_sequence_output"][real], "causal")


def check_gradients(case, training):
    """Of the pre-training loss; `training` takes the branches that are written for speed, dropout is 0."""
    import tensorflow as tf

    no_dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    model = BertPretrainer(BertConfig.from_dict(case.config.to_dict() | no_dropout))
    inputs = case.group("inputs")
    load_hf_weights(model, case.group("weights"))
    with tf.GradientTape() as tape:
        outputs = model(case.batch() | {"mask_positions": inputs["mask_positions"]}, training=training)
        loss = sum(
            keras.ops.mean(keras.losses.sparse_categorical_crossentropy(inputs[label], outputs[name], from_logits=True))
            for label, name in (("mask_ids", "mlm_logits"), ("next_sentence_label", "nsp_logits"))
        )
    variables = model.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, [v.value for v in variables]), strict=True):
        expected = hf_value(variable.path, case.group("gradients"))
        error = np.max(np.abs(tf.convert_to_tensor(gradient).numpy() - expected))
        # The key's bias has no gradient but rounding: it adds the same to all scores of a row.
        assert error <= 1e-4 * max(np.max(np.abs(expected)), 1e-3), f"{variable.path}: {error}"


def test_encoder_equals_hugging_face(case):
    check_encoder(case)


def test_heads_equal_hugging_face(case):
    check_heads(case)


def test_left_to_right_attention_equals_hugging_face(case):
    check_causal(case)


@pytest.mark.parametrize("training", [False, True])
def test_gradients_equal_hugging_face(training):
    with np.load(GOLDEN / "bert_gelu_tanh.npz") as values:
        check_gradients(Case(values, SIZES, "gelu_tanh"), training)


@pytest.mark.parity
def test_other_sizes_equal_hugging_face(live_case):
    check_encoder(live_case)
    check_heads(live_case)
    check_causal(live_case)
    check_gradients(live_case, training=True)
