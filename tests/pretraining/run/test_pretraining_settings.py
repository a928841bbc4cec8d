"""The settings of a pre-training: what they complete, refuse and store, their phases, and the new weights."""

import json

import keras
import numpy as np
import pytest
from helpers.pretraining_fields import pretraining_fields, pretraining_settings
from helpers.tiny_corpus import make_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.optim.schedule import WarmupLinearDecay
from kbert.pretraining.run import run_pretraining as module
from kbert.pretraining.run.phases import count_steps, first_row, plan_stages, read_phases, read_ramp
from kbert.pretraining.run.pretraining_settings import complete_settings
from kbert.pretraining.run.run_pretraining import check_run
from kbert.pretraining.run.starting_model import starting_model
from kbert.training.hardware import Hardware, choose_hardware

TEXT = {"steps": 2, "batch_size": 4, "sequence_length": 16, "evaluation_batches": 1, "packed": False, "held_out": 0.2}
PAPER = ((128, 0.9, 256, 20), (512, 0.1, 256, 80))
ONE = Hardware(object(), "one", 1, "float32", False, ())
TWO = Hardware(object(), "mirrored", 2, "float32", False, ())
JAX = Hardware(None, "mirrored", 2, "float32", True, ())


def test_settings_are_complete_and_identify_objects():
    fields = pretraining_fields(vocabulary=make_tokenizer()) | TEXT | {"packed": None}
    settings = pretraining_settings(**fields).to_dict()
    assert settings["weight_decay"] == 0.01 and "output" not in settings and "log_every" not in settings
    assert settings["corpus_or_records"] == ["a.txt"] and (settings["warmup_steps"], settings["max_predictions"]) == (
        1,
        3,
    )
    assert len(settings["vocabulary"]["sha256"]) == 64 and settings["vocabulary"]["lowercase"] is True
    for name, value in (
        ("schedule", "cosine"),
        ("learning_rate", 0.0),
        ("dropout", 1.0),
        ("steps", 0),
        ("layer_decay", 2.0),
        ("weight_decay", -0.1),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            pretraining_settings(**fields | {name: value})
    phases = fields | {"phases": [(16, 0.5), (24, 0.5)], "steps": 10}
    for length in (None, 24):  # settings.json has the longest, too
        assert pretraining_settings(**phases | {"sequence_length": length}).sequence_length == 24
    wrong_inputs(
        lambda change: pretraining_settings(**fields | change),
        ({"steps": None}, "either `steps` or `hours`"),
        ({"steps": None, "hours": -1.0}, r"`hours` must be a number in \(0, inf\) or None. Received: -1.0"),
        ({"steps": None, "hours": 1.0, "warmup_steps": 3}, "takes `warmup_proportion`"),
        ({"warmup_steps": 1, "warmup_proportion": 0.1}, "either `warmup_steps` or `warmup_proportion`"),
        ({"phases": ["16:0.8", "24:0.2"], "sequence_length": None}, r"each of `phases` needs a step.* phases\[1\], 20"),
        ({"phases": ["24:1"]}, "`phases` have sequence lengths. Received: sequence_length=16"),
        ({"batch_size_ramp": (4, 0.5)}, "must begin below the batch size. Received: 4, of 4"),
        ({"left_to_right": True, "keep_rate": 0.0}, "masks none. Received: {'keep_rate': 0.0}"),
        ({"left_to_right": True, "whole_word": True}, "masks none"),
        ({"left_to_right": True, "names": "names.txt"}, "masks none. Received: {'names': 'names.txt'}"),
        ({"random_next_rate": 0.4, "next_sentence": False}, "`random_next_rate` is for next sentence prediction"),
        ({"mask_rate": 0.0}, r"`mask_rate` must be a number in \(0, 1\]"),
        (
            {"learning_rate": WarmupLinearDecay(1e-3, 1, 9)},
            "the peak of the verb's own schedule or None. Received: <kbert",
        ),
        ({"fill_rows": True, "packed": False}, "`fill_rows` is for packed rows"),
        ({"position_embedding": "none"}, "`position_embedding` must be one of"),
        ({"initializer_stddev": 0.0}, "`initializer_stddev` must be a number in .*, 'scaled' or None. Received: 0.0"),
        ({"position_initializer": "normal", "position_embedding": "sinusoidal"}, "is of learned positions"),
        ({"init": "runs/tiny", "vocabulary": None, "position_embedding": "learned"}, "an architecture and weights of"),
        ({"init": "runs/tiny", "vocabulary": None, "initializer_stddev": 0.1}, "an architecture and weights of"),
        ({"steps_per_execution": 3}, "multiple of `steps_per_execution`"),
    )
    with pytest.raises(ValueError, match="in the order of their ids, as a list.* Received: dict"):
        pretraining_settings(**fields | {"vocabulary": {"[PAD]": 0}}).to_dict()


def test_numbers_of_numpy_are_pythons():
    given = {"steps": np.int64(4), "batch_size": np.int32(2), "sequence_length": np.uint8(16), "seed": np.int64(3)}
    given |= {"learning_rate": np.float32(0.5), "dropout": np.float64(0.25), "packed": np.False_}
    given |= {"initializer_stddev": np.float32(0.25)}
    settings = pretraining_settings(**pretraining_fields() | given).to_dict()
    assert {name: settings[name] for name in given} == {name: value.item() for name, value in given.items()}
    assert json.loads(json.dumps(settings)) == settings


@pytest.mark.parametrize(
    "changes, predictions",
    [({}, 20), ({"mask_rate": 0.15}, 20), ({"mask_rate": 0.3}, 40), ({"left_to_right": True}, 126)],
)
def test_as_many_predictions_as_the_objective_has(changes, predictions):
    fields = pretraining_fields(steps=10)
    assert pretraining_settings(**fields | changes).max_predictions == predictions
    phases = pretraining_settings(**fields | changes | {"phases": ["128:1"]}).phases
    assert phases[0][-1] == predictions


def test_a_share_of_warmup_is_stored_as_steps(tmp_path):
    """A run with it is extended by the steps that the error message names."""
    fields = pretraining_fields(steps=1000, schedule="constant")
    fraction, steps = (
        pretraining_settings(**fields | given) for given in ({"warmup_proportion": 0.05}, {"warmup_steps": 50})
    )
    assert fraction.to_dict() == steps.to_dict()
    small = [pretraining_settings(**fields | {"settings": "small-budget", "warmup_steps": n}) for n in (None, 50)]
    assert small[0].to_dict() == small[1].to_dict()


def test_named_settings_are_stored_as_what_they_mean():
    fields = pretraining_fields(steps=1000)
    paper = pretraining_settings(**fields | {"settings": "paper"}).to_dict()
    assert (paper["warmup_steps"], paper["batch_size"], paper["sequence_length"]) == (10, 256, 512)
    assert [phase[-1] for phase in paper["phases"]] == [20, 80]
    given = {"settings": "small-budget", "batch_size": 8, "hours": 2.0, "steps": None}
    small = pretraining_settings(**fields | given).to_dict()
    assert (small["warmup_proportion"], small["batch_size"], small["dropout"], small["learning_rate"]) == (
        0.05,
        8,
        0.0,
        1e-3,
    )


def test_new_weights():
    fields = pretraining_fields(vocabulary=make_tokenizer(), steps=10)
    hardware = choose_hardware("one", "float32", "off", None)
    normal, _ = starting_model(pretraining_settings(**fields), hardware)
    wide, _ = starting_model(pretraining_settings(**fields | {"initializer_stddev": 0.09}), hardware)
    settings = pretraining_settings(**fields | {"initializer_stddev": 0.09, "position_initializer": "sinusoidal"})
    waves, _ = starting_model(settings, hardware)
    layers = [model.encoder.embeddings.position_embedding for model in (normal, wide, waves)]
    tables = [keras.ops.convert_to_numpy(layer.embeddings) for layer in layers]
    np.testing.assert_allclose([table.std() for table in tables[:2]], [0.0176, 0.0792], rtol=0.02)  # truncated
    positions, wave = np.arange(512)[:, None], np.arange(64)
    angles = positions / 10000 ** (2 * wave / 128)
    np.testing.assert_allclose(tables[2][:, 0::2], 0.09 * np.sin(angles), atol=1e-4)
    np.testing.assert_allclose(tables[2][:, 1::2], 0.09 * np.cos(angles), atol=1e-4)
    assert waves.config.position_embedding == "learned" and waves.config.initializer_stddev == 0.09
    assert layers[2].trainable
    small, _ = starting_model(pretraining_settings(**fields | {"settings": "small-budget", "size": "mini"}), hardware)
    assert small.config.initializer_stddev == pytest.approx(0.02 * 3**0.5)
    assert keras.ops.convert_to_numpy(small.encoder.embeddings.position_embedding.embeddings)[0, 0] == 0.0


def test_phases_are_read_as_numbers_and_as_text():
    assert read_phases([(128, 0.9), (512, 0.1)], 256) == read_phases(["128:0.9", "512:0.1"], 256) == PAPER
    assert read_phases(["64:0.5:8", "128:0.5:4:7"], 32) == ((64, 0.5, 8, 10), (128, 0.5, 4, 7))
    assert read_phases([(64, 1.0)], 32, max_predictions=3) == ((64, 1.0, 32, 3),)


@pytest.mark.parametrize(
    "wrong", [["128"], ["128:x"], ["128:0"], ["0:1"], ["12.5:1"], ["8:1:2:3:4"], [(8, 0.5)], [], [(8, 1.0, 0)], [7]]
)
def test_wrong_phases(wrong):
    with pytest.raises(ValueError, match="pretrain: .*Received"):
        read_phases(wrong, 32)


def test_ramps():
    assert read_ramp("8:0.3") == read_ramp((8, 0.3)) == (8, 0.3) and read_ramp(None) is None
    for wrong in ("8", "8:0", "0:0.5", "8:2", (8,), 5):
        with pytest.raises(ValueError, match="batch_size_ramp"):
            read_ramp(wrong)


def test_a_plan_without_a_ramp_is_the_phases():
    stages = plan_stages(PAPER)
    assert [(stage.end, stage.phase, stage.batch_size) for stage in stages] == [(0.9, 0, 256), (1.0, 1, 256)]
    assert [(stage.sequence_length, stage.max_predictions) for stage in stages] == [(128, 20), (512, 80)]


def test_a_ramp_doubles_and_passes_over_borders_of_phases():
    stages = plan_stages(((128, 0.3, 48, 20), (512, 0.7, 12, 80)), (8, 0.6))
    found = [(round(stage.end, 6), stage.phase, stage.batch_size) for stage in stages]
    assert found == [(0.2, 0, 8), (0.3, 0, 16), (1.0, 1, 12)]


def test_rows_are_counted_within_a_phase():
    stages = plan_stages(((128, 0.5, 16, 20), (512, 0.5, 8, 80)), (4, 0.25))
    assert [stage.batch_size for stage in stages] == [4, 8, 16, 8]
    starts = [0, 10, 20, 40]
    assert first_row(stages, starts[:1], 9) == 36
    assert first_row(stages, starts[:3], 21) == 10 * 4 + 10 * 8 + 16
    assert first_row(stages, starts, 40) == 0 and first_row(stages, starts, 43) == 24


def test_every_phase_has_a_step():
    assert count_steps(plan_stages(PAPER), 40) == [36, 4]
    assert count_steps(plan_stages(PAPER, (1, 0.5)), 10)[:3] == [1, 0, 1]  # of a ramp, which is only so long
    with pytest.raises(ValueError, match=r"phases\[1\], 1.00% of 40 steps, with 512 tokens"):
        count_steps(plan_stages(read_phases([(128, 0.99), (512, 0.01)], 8)), 40)
    with pytest.raises(ValueError, match=r"phases\[0\], 10.00% of 8 steps, with 128 tokens"):
        count_steps(plan_stages(read_phases([(128, 0.1), (512, 0.9)], 8)), 8, multiple=4)


def test_shares_that_are_not_binary_fractions_end_at_one():
    phases = read_phases([(8 * n, 0.1) for n in range(1, 11)], 4)
    assert plan_stages(phases)[-1].end == 1.0


def test_named_settings_fill_only_what_is_not_given():
    assert complete_settings(None, {}) == {
        "batch_size": 32,
        "learning_rate": 1e-4,
        "schedule": "linear",
        "bias_correction": False,
    }
    small = complete_settings("small-budget", {"batch_size": 8, "warmup_steps": 5, "phases": ((64, 1.0),)})
    assert small == {
        "learning_rate": 1e-3,
        "schedule": "stable",
        "dropout": 0.0,
        "bias_correction": True,
        "initializer_stddev": "scaled",
        "position_initializer": "sinusoidal",
    }
    assert "phases" not in complete_settings("paper", {"sequence_length": 128})
    with pytest.raises(ValueError, match="`settings` must be one of .'paper', 'small-budget'.. Received: 'best'"):
        complete_settings("best", {})


def settings_of(**given):
    return pretraining_settings(**pretraining_fields(steps=1000) | given)


def test_what_goes_together():
    check_run(settings_of(), TWO)
    check_run(settings_of(accumulate=4, steps_per_execution=5), ONE)
    check_run(settings_of(accumulate=4), TWO)
    check_run(settings_of(steps=None, hours=1.0), TWO)


def test_what_does_not():
    def check(run):
        options, hardware = run
        check_run(settings_of(**options), hardware)

    wrong_inputs(
        check,
        (({"accumulate": 3, "batch_size": 9}, TWO), r"multiple of `accumulate`, 3 times the 2 rep.*: \[9\]"),
    )


def test_on_jax_all_batches_are_checked(monkeypatch):
    asked = []
    monkeypatch.setattr(module, "check_divides", asked.append)
    check_run(settings_of(batch_size=20, batch_size_ramp="8:0.5"), JAX)
    assert set(asked) == {8, 16, 20}
    with pytest.raises(ValueError, match=r"multiple of `accumulate`, 2 times the 2 replicas. Received: \[6\]"):
        check_run(settings_of(accumulate=2, batch_size=6), JAX)


def test_nothing_is_left_behind(tmp_path):
    with pytest.raises(ValueError, match="`steps` must be a multiple of `steps_per_execution`. Received: 9 and 8"):
        kbert.pretrain("a.txt", vocabulary="vocab.txt", steps=9, steps_per_execution=8, output=tmp_path / "run")
    with pytest.raises(ValueError, match="`xla` must be one of .* Received: 'maybe'"):
        kbert.pretrain("a.txt", vocabulary="vocab.txt", steps=8, xla="maybe", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
