"""Every public model through the shared harness, and its tasks, outputs and ways of building."""

import keras
import numpy as np
import pytest
from helpers.batches import (
    BATCH,
    CHOICES,
    LABELS,
    LENGTH,
    PARTS,
    PREDICTIONS,
    choice_batch,
    config,
    labels_of,
    packed_batch,
    plain_batch,
    pretraining_batch,
)
from helpers.model_harness import run_model_test

import kbert
from kbert.models.classifier import BertClassifier
from kbert.models.encoder import OUTPUTS, BertEncoder
from kbert.models.multiple_choice import BertMultipleChoice
from kbert.models.pretrainer import BertPretrainer
from kbert.models.regressor import BertRegressor
from kbert.models.span_extractor import BertSpanExtractor
from kbert.models.tagger import BertTagger

V = config().vocabulary_size
MLM = {"mlm_logits": labels_of((BATCH, PREDICTIONS), V)}
NSP = {"nsp_logits": labels_of(BATCH, 2)}
HIDDEN = {
    "sequence_output": np.zeros((BATCH, LENGTH, 12), "float32"),
    "pooled_output": np.zeros((BATCH, 12), "float32"),
}
PACKED = packed_batch()
PACKED_PLACES = {"mask_positions": pretraining_batch()["mask_positions"]}

CASES = {  # class, arguments, batch, labels, task
    "encoder": (BertEncoder, {}, plain_batch(), HIDDEN, "encoder"),
    "encoder_packed": (
        BertEncoder,
        {"num_parts": PARTS, "outputs": ("pooled_output",)},
        PACKED,
        {"pooled_output": np.zeros((BATCH, PARTS, 12), "float32")},
        "encoder",
    ),
    "pretrainer": (BertPretrainer, {}, pretraining_batch(), MLM | NSP, "pretraining"),
    "pretrainer_untied": (BertPretrainer, {"tied": False}, pretraining_batch(), MLM | NSP, "pretraining"),
    "pretrainer_packed": (
        BertPretrainer,
        {"num_parts": PARTS},
        PACKED | PACKED_PLACES,
        MLM | {"nsp_logits": labels_of((BATCH, PARTS), 2)},
        "pretraining",
    ),
    "masked_lm": (BertPretrainer, {"next_sentence": False}, pretraining_batch(), MLM, "masked_lm"),
    "next_sentence": (BertPretrainer, {"masked_lm": False}, plain_batch(), NSP, "next_sentence"),
    "classifier": (
        BertClassifier,
        {"num_labels": LABELS, "dropout": 0.0},
        plain_batch(),
        {"logits": labels_of(BATCH, LABELS)},
        "classification",
    ),
    "regressor": (
        BertRegressor,
        {"dropout": 0.0},
        plain_batch(),
        {"score": np.linspace(0, 1, BATCH, dtype="float32")},
        "regression",
    ),
    "span": (
        BertSpanExtractor,
        {},
        plain_batch(),
        {"start_logits": labels_of(BATCH, LENGTH), "end_logits": labels_of(BATCH, LENGTH, 3)},
        "span",
    ),
    "tagger": (
        BertTagger,
        {"num_labels": LABELS, "dropout": 0.0},
        plain_batch(),
        {"logits": labels_of((BATCH, LENGTH), LABELS)},
        "tagging",
    ),
    "multiple_choice": (
        BertMultipleChoice,
        {"dropout": 0.0},
        choice_batch(),
        {"logits": labels_of(BATCH, CHOICES)},
        "multiple_choice",
    ),
}


SMALL = config(num_layers=1)  # tracing and compiling is what takes the time here


def losses_of(labels):
    return {
        name: keras.losses.SparseCategoricalCrossentropy(from_logits=True) if "logits" in name else "mse"
        for name in labels
    }


# The others differ from these in their last linear layer or in what goes in; of choices: test_output_keys_and_shapes,
# test_labels.py and pipelines/test_multiple_choice.py.
@pytest.mark.parametrize(
    "case, in_graph",
    [
        pytest.param(
            case,
            case in ("encoder", "pretrainer_packed"),
            marks=() if case in ("encoder", "pretrainer") else pytest.mark.slow,
        )
        for case in CASES
    ]
    + [pytest.param("multiple_choice", True, marks=pytest.mark.slow)],
)
def test_model(case, in_graph, tmp_path):
    model_class, arguments, batch, labels, task = CASES[case]
    assert model_class(SMALL, **arguments).task == task
    run_model_test(
        lambda **kw: model_class(SMALL, **arguments, **kw),
        batch,
        labels,
        losses_of(labels),
        tmp_path,
        run_eagerly=not in_graph,
    )


def test_output_keys_and_shapes():
    shapes = {
        "pretrainer": {"mlm_logits": (BATCH, PREDICTIONS, V), "nsp_logits": (BATCH, 2)},
        "pretrainer_packed": {"mlm_logits": (BATCH, PREDICTIONS, V), "nsp_logits": (BATCH, PARTS, 2)},
        "masked_lm": {"mlm_logits": (BATCH, PREDICTIONS, V)},
        "next_sentence": {"nsp_logits": (BATCH, 2)},
        "encoder": {"sequence_output": (BATCH, LENGTH, 12), "pooled_output": (BATCH, 12)},
        "encoder_packed": {"pooled_output": (BATCH, PARTS, 12)},
        "classifier": {"logits": (BATCH, LABELS)},
        "regressor": {"score": (BATCH,)},
        "span": {"start_logits": (BATCH, LENGTH), "end_logits": (BATCH, LENGTH)},
        "tagger": {"logits": (BATCH, LENGTH, LABELS)},
        "multiple_choice": {"logits": (BATCH, CHOICES)},
    }
    for case, expected in shapes.items():
        model_class, arguments, batch, _, _ = CASES[case]
        outputs = model_class(SMALL, **arguments)(batch)
        assert {name: tuple(x.shape) for name, x in outputs.items()} == expected


def test_all_outputs_of_the_encoder():
    outputs = BertEncoder(config(), outputs=OUTPUTS)(plain_batch())
    assert [tuple(x.shape) for x in outputs["hidden_states"]] == [(BATCH, LENGTH, 12)] * 3
    assert [tuple(x.shape) for x in outputs["attention_probs"]] == [(BATCH, 3, LENGTH, LENGTH)] * 2
    np.testing.assert_array_equal(outputs["hidden_states"][-1], outputs["sequence_output"])
    without = BertEncoder(config(), pooler=False)
    assert set(without(plain_batch())) == {"sequence_output"}
    assert not any("pooler" in v.path for v in without.variables)


def test_a_classifier_in_one_line():
    model = kbert.BertClassifier(kbert.BertConfig.from_size("tiny", vocabulary_size=37), num_labels=3)
    assert model(plain_batch())["logits"].shape == (BATCH, 3)
    assert model.config.hidden_dim == 128 and model.encoder.config is model.config


def test_dropout_is_where_the_paper_has_it():
    fields = config(hidden_dropout=0.2, attention_dropout=0.3)
    block = {"attention/dropout": 0.3, "attention_output_dropout": 0.2, "feed_forward_dropout": 0.2}
    encoder = {"embeddings/dropout": 0.2}
    encoder |= {f"encoder_block_{i}/{name}": rate for i in range(2) for name, rate in block.items()}
    heads = {
        BertPretrainer: {},
        BertSpanExtractor: {},
        BertClassifier: {"classifier_head/dropout": 0.2},
        BertRegressor: {"regressor_head/dropout": 0.2},
        BertMultipleChoice: {"multiple_choice_head/dropout": 0.2},
    }
    for model_class, head in heads.items():
        assert dropout_rates(model_class(fields)) == encoder | head
    assert dropout_rates(BertTagger(fields, num_labels=3, dropout=0.5)) == encoder | {"tagger_head/dropout": 0.5}


def dropout_rates(model):
    """Path and rate of every dropout layer that drops something."""
    return {layer.path: layer.rate for layer in model._flatten_layers() if getattr(layer, "rate", 0)}


def test_training_drops_and_inference_does_not():
    model, batch = BertClassifier(config(hidden_dropout=0.5)), plain_batch()
    twice = [np.array(model(batch, training=True)["logits"]) for _ in range(2)]
    assert not np.array_equal(*twice)
    np.testing.assert_array_equal(model(batch)["logits"], model(batch, training=False)["logits"])


def test_the_masked_lm_head_can_differ_from_the_encoder():
    batch = pretraining_batch()
    plain = BertPretrainer(config())
    other = BertPretrainer(config(), head_activation="relu", head_layer_norm_epsilon=0.1)
    other.set_weights(plain.get_weights())
    np.testing.assert_array_equal(plain(batch)["nsp_logits"], other(batch)["nsp_logits"])
    assert not np.allclose(plain(batch)["mlm_logits"], other(batch)["mlm_logits"], atol=1e-4)


def test_packed_position_ids_may_repeat_only_within_the_table():
    encoder = BertEncoder(config(), num_parts=PARTS)
    long = {name: np.concatenate([x, x], axis=1) for name, x in PACKED.items()}  # 14 tokens a row, 11 positions
    assert encoder(long)["sequence_output"].shape == (BATCH, 2 * LENGTH, 12)


def test_bad_arguments():
    good = config()
    with pytest.raises(TypeError, match="`config` must be a BertConfig. Received: 'tiny'"):
        BertEncoder("tiny")
    with pytest.raises(TypeError, match="Expected a BertConfig or a BertEncoder. Received: None"):
        BertClassifier(None)
    with pytest.raises(ValueError, match="`outputs` must be some of .* Received: .'sequence'"):
        BertEncoder(good, outputs=["sequence"])
    with pytest.raises(ValueError, match="`pooled_output` needs the pooler. Received: .*sequence_output"):
        BertEncoder(good, outputs=("pooled_output", "sequence_output"), pooler=False)
    with pytest.raises(ValueError, match="`num_parts` must be a positive integer or None. Received: 0"):
        BertEncoder(good, num_parts=0)
    with pytest.raises(ValueError, match="at least one head"):
        BertPretrainer(good, next_sentence=False, masked_lm=False)
    with pytest.raises(ValueError, match=r"without \['pooled_output'\]"):
        BertClassifier(BertEncoder(good, pooler=False))
    with pytest.raises(ValueError, match="num_parts=3 and an encoder built with num_parts=None"):
        BertPretrainer(BertEncoder(good), num_parts=3)
    with pytest.raises(ValueError, match="'mixed_bfloat16' and an encoder with 'float32'"):
        BertClassifier(BertEncoder(good), dtype="mixed_bfloat16")
    with pytest.raises(ValueError, match="packed rows"):
        BertMultipleChoice(BertEncoder(good, num_parts=2))


def test_bad_batches():
    model, batch = BertClassifier(config()), plain_batch()
    with pytest.raises(ValueError, match=r"not taken by this model: \['mask_positions'\]"):
        model(pretraining_batch())
    with pytest.raises(ValueError, match="missing: .*token_ids"):
        model({name: x for name, x in batch.items() if name != "token_ids"})
    with pytest.raises(ValueError, match="position table"):
        model({name: np.tile(x, (1, 2)) for name, x in batch.items()})
    with pytest.raises(ValueError, match="position table"):
        model.predict({name: np.tile(x, (1, 2)) for name, x in batch.items()}, verbose=0)


def test_integer_padding_masks_are_taken_too():
    model, batch = BertClassifier(config()), plain_batch()
    as_integers = batch | {"padding_mask": batch["padding_mask"].astype("int32")}
    np.testing.assert_array_equal(model(batch)["logits"], model(as_integers)["logits"])
