"""The course of a pre-training: phases, warm-up; what does not go together; presets."""

import argparse
import functools
import inspect
import json

import keras
import numpy as np
import pytest
from helpers.at_step import Killed, killed_at
from helpers.pretraining_fields import corpus_data, course_of
from helpers.recorded import recorded_names
from helpers.run_recipe import run_kbert
from helpers.tiny_corpus import VOCABULARY, make_documents, make_pretrainer, make_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.cli import parse_call
from kbert.commands import COMMANDS
from kbert.files import read_json
from kbert.optim.schedule import WarmupLinearDecay
from kbert.options import record
from kbert.pretraining import Execution, Masking, NewModel, preset
from kbert.pretraining.run.course import Course, LearningRate, plan_phases
from kbert.pretraining.run.starting_model import Start, make_new_model

SHORT = {"steps": 2, "batch_size": 4, "sequence_length": 16, "packed": False}
PAPER = ((128, 0.9, 256, 20), (512, 0.1, 256, 80))


def test_what_does_not_go_together(records):
    pretrain = functools.partial(kbert.pretrain, records)
    for name, value in (("schedule", "cosine"), ("learning_rate", 0.0), ("dropout", 1.0), ("steps", 0)):
        with pytest.raises(ValueError, match=f"`{name}`"):
            pretrain(**SHORT | {name: value})
    wrong_inputs(
        lambda change: pretrain(**SHORT | change),
        ({"steps": None}, "either `steps` or `hours`. Received: neither"),
        ({"steps": None, "hours": -1.0}, r"`hours` must be a number in \(0, inf\) or None. Received: -1.0"),
        ({"next_sentence": False, "random_next_rate": 0.3}, "`random_next_rate` is for next .* Received: 0.3 and next"),
        (
            {"init": "model", "new_model": NewModel(position_embedding="sinusoidal")},
            "`init` has positions and weights of its own. Received: {'position_embedding': 'sinusoidal'} as well",
        ),
        (
            {"init": "model", "new_model": NewModel(position_initializer="sinusoidal", initializer_stddev=0.01)},
            "`init` has positions and weights of its own. Received: .*0.01",
        ),
        ({"warmup_steps": 3}, "`warmup_steps` must be at most `steps`. Received: 3 of 2"),
        ({"phases": [(16, 0.8), (24, 0.2)], "sequence_length": 24}, r"each of `phases` needs a step.* phases\[1\], 20"),
        ({"phases": [(24, 1.0)]}, "`phases` have sequence lengths. Received: sequence_length=16"),
        ({"phases": [(16, 0.5)]}, r"`phases` must have the sum 1. Received: \[\(16, 0.5\)\]"),
        ({"phases": []}, r"`phases` must have the sum 1. Received: \[\]"),
        (
            {"left_to_right": True, "masking": Masking(mask_token_rate=0.9, keep_rate=0.0)},
            "masks none. Received: whole",
        ),
        ({"left_to_right": True, "whole_word": True}, "masks none"),
        ({"left_to_right": True, "masking": Masking(names="names.txt")}, "masks none. Received: .*names.txt"),
        ({"mask_rate": 0.0}, r"`mask_rate` must be a number in \(0, 1\]"),
        ({"learning_rate": WarmupLinearDecay(1e-3, 1, 9)}, r"a number in \(0, inf\). Received: <kbert"),
        ({"fill_rows": True, "packed": False}, "`fill_rows` is for packed rows"),
        ({"vocabulary": "vocab.txt"}, "records have a vocabulary of their own"),
        ({"lowercase": False}, "`lowercase` goes with a `vocabulary` file"),
        ({"held_out": 0.01}, "pretrain: records have held-out documents of their own.* held_out=0.01"),
        ({"execution": Execution(steps_per_execution=3)}, "multiple of `steps_per_execution`. Received: 2 and 3"),
    )
    with pytest.raises(ValueError, match="`position_embedding` must be one of"):
        NewModel(position_embedding="none")
    with pytest.raises(TypeError, match="field of `masking`: masking=Masking"):
        pretrain(keep_rate=0.1, **SHORT)


@pytest.mark.usefixtures("eagerly", "same_data")
def test_settings_are_complete_and_plain(records, tmp_path):
    given = {"steps": np.int64(2), "batch_size": np.int32(4), "sequence_length": np.uint8(16), "seed": np.int64(3)}
    given |= {"learning_rate": np.float32(0.5), "dropout": np.float64(0.25), "packed": np.False_}
    kbert.pretrain(records, evaluation_batches=1, output=tmp_path / "run", **given)
    settings = read_json(tmp_path / "run" / "settings.json")
    assert {name: settings[name] for name in given} == {name: value.item() for name, value in given.items()}
    assert json.loads(json.dumps(settings)) == settings
    assert settings["weight_decay"] == 0.01 and (settings["warmup_steps"], settings["max_predictions"]) == (1, 3)
    assert settings.keys() == recorded_names(kbert.pretrain)
    assert not {"output", "log_every", "masking", "callbacks"} & settings.keys()
    values, _ = parse_call("kbert", COMMANDS["pretrain"], ["--config", str(tmp_path / "run" / "settings.json")])
    call = inspect.signature(kbert.pretrain).bind(**values)
    call.apply_defaults()
    assert record(kbert.pretrain, call.arguments) == settings


@pytest.mark.usefixtures("eagerly", "same_data")
def test_settings_of_a_run_of_hours_resume_it(records, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("kbert.training.dry_run.mean_seconds_per_step", lambda *_: 1800.0)
    given = SHORT | {"steps": None, "hours": 1, "evaluation_batches": 1, "output": tmp_path / "run"}
    with pytest.raises(Killed):
        kbert.pretrain(records, callbacks=killed_at(1), **given)
    settings = tmp_path / "run" / "settings.json"
    stored = read_json(settings)
    run = run_kbert("pretrain", "--config", settings, "--output", tmp_path / "run")
    assert run.metrics["steps"] == stored["steps"] == 2 and read_json(settings) == stored
    assert "`steps` overrides `hours`: 2 steps" in capsys.readouterr().err
    again = run_kbert("pretrain", "--config", settings, "--steps", 1, "--output", tmp_path / "another")
    assert again.metrics["steps"] == 1 and "`steps` overrides `hours`: 1 steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes, predictions",
    [({}, 20), ({"mask_rate": 0.15}, 20), ({"mask_rate": 0.3}, 40), ({"left_to_right": True}, 126)],
)
def test_as_many_predictions_as_the_objective_has(changes, predictions):
    for phases in (None, [(128, 1.0)]):
        assert course_of(steps=10, phases=phases, **changes).phases[0].max_predictions == predictions
    assert course_of(masking=Masking(max_predictions=7)).phases[0].max_predictions == 7


@pytest.mark.parametrize(("warmup_steps", "steps"), [(50, 50), (0.1, 100), (0.0001, 1), (0.0, 0), (None, 100)])
def test_the_warm_up(warmup_steps, steps):
    assert LearningRate(1.0, "linear", warmup_steps).warmup(1000) == steps


def test_the_warm_up_of_a_long_run_is_the_papers():
    assert LearningRate(1.0, "linear").warmup(1_000_000) == 10_000


@pytest.mark.parametrize(
    "change, extendable",
    [
        ({"schedule": "constant"}, True),
        ({"schedule": "stable"}, False),
        ({"schedule": "linear"}, False),
        ({"schedule": "constant", "phases": [(16, 0.5), (24, 0.5)], "sequence_length": 24}, False),
        ({"schedule": "constant", "steps": None, "hours": 1.0}, False),
    ],
)
def test_more_steps_extend_a_run_only_if_what_is_done_does_not_depend_on_them(
    records, tmp_path, monkeypatch, change, extendable
):
    class Opened(BaseException):
        pass

    def open_run(*arguments, **options):
        raise Opened(options["extendable"])

    monkeypatch.setattr("kbert.training.run_directory.open_run", open_run)
    with pytest.raises(Opened, match=f"^{extendable}$"):
        kbert.pretrain(records, init=make_pretrainer(24), output=tmp_path / "run", **SHORT | change)


def test_presets():
    paper, small = preset("paper"), preset("small-budget")
    assert course_of(steps=1000, phases=paper["phases"], batch_size=paper["batch_size"]).phases == PAPER
    assert paper["warmup_steps"] == 0.01 and (small["learning_rate"], small["schedule"]) == (1e-3, "stable")
    assert small["optimization"].bias_correction and not paper["optimization"].bias_correction
    assert small["new_model"] == NewModel(initializer_stddev="scaled", position_initializer="sinusoidal")
    Start("model", None, None, True, None, small["new_model"], 0)  # no error: they are of a preset
    with pytest.raises(ValueError, match="must be one of .'paper', 'small-budget'.. Received: 'best'"):
        preset("best")


def test_new_weights():
    def new(size=None, **options):
        start = Start(None, size, None, True, None, NewModel(**options), 0)
        return make_new_model(start, VOCABULARY, next_sentence=True, left_to_right=False, sequence_length=16)

    normal, wide = new(), new(initializer_stddev=0.09)
    waves = new(initializer_stddev=0.09, position_initializer="sinusoidal")
    layers = [model.encoder.embeddings.position_embedding for model in (normal, wide, waves)]
    tables = [keras.ops.convert_to_numpy(layer.embeddings) for layer in layers]
    np.testing.assert_allclose([table.std() for table in tables[:2]], [0.0176, 0.0792], rtol=0.02)  # truncated
    positions, wave = np.arange(512)[:, None], np.arange(64)
    angles = positions / 10000 ** (2 * wave / 128)
    np.testing.assert_allclose(tables[2][:, 0::2], 0.09 * np.sin(angles), atol=1e-4)
    np.testing.assert_allclose(tables[2][:, 1::2], 0.09 * np.cos(angles), atol=1e-4)
    assert waves.config.position_embedding == "learned" and waves.config.initializer_stddev == 0.09
    assert layers[2].trainable
    small = new("mini", initializer_stddev="scaled", position_initializer="sinusoidal")
    assert small.config.initializer_stddev == pytest.approx(0.02 * 3**0.5)
    assert keras.ops.convert_to_numpy(small.encoder.embeddings.position_embedding.embeddings)[0, 0] == 0.0


def test_phases_may_have_a_batch_size_and_a_number_of_masks():
    assert plan_phases([(128, 0.9), (512, 0.1)], 256) == PAPER
    assert plan_phases([(64, 0.5, 8), (128, 0.5, 4, 7)], 32) == ((64, 0.5, 8, 10), (128, 0.5, 4, 7))
    assert plan_phases([(64, 1.0)], 32, max_predictions=3) == ((64, 1.0, 32, 3),)


def test_phases_on_the_command_line():
    values, _ = parse_call("kbert", COMMANDS["pretrain"], ["records", "--phases", "64:0.5:8", "128:0.5:4:7"])
    assert values["phases"] == [(64, 0.5, 8), (128, 0.5, 4, 7)]


@pytest.mark.parametrize("wrong", ["128", "128:x", "8:", "128:0.9,512:0.1"])
def test_phases_that_are_no_numbers(wrong):
    with pytest.raises(argparse.ArgumentError, match=f"expected numbers, such as 128:0.9. Received: {wrong}$"):
        parse_call("kbert", COMMANDS["pretrain"], ["records", "--phases", wrong])


@pytest.mark.parametrize("wrong", ["128:0", "0:1", "12.5:1", "8:1:2:3:4", "8:1:0"])
def test_wrong_phases(wrong):
    with pytest.raises(ValueError, match=r"`phases` must be a list, each item \(a positive integer, .*Received: "):
        parse_call("kbert", COMMANDS["pretrain"], ["records", "--phases", wrong])


def test_every_phase_has_a_step():
    assert course_of(40, phases=[(128, 0.9), (512, 0.1)]).phase_steps == [36, 4]
    with pytest.raises(ValueError, match=r"phases\[1\], 1.00% of 40 steps, with 512 tokens"):
        course_of(40, phases=[(128, 0.99), (512, 0.01)])
    with pytest.raises(ValueError, match=r"phases\[0\], 10.00% of 8 steps, with 128 tokens"):
        course_of(8, phases=[(128, 0.1), (512, 0.9)], steps_per_execution=4)


def test_fractions_that_are_not_binary_end_with_the_run():
    course = Course(plan_phases([(8 * n, 0.1) for n in range(1, 11)], 4), 30)
    assert course.ends == list(range(3, 31, 3))


def test_a_phase_reads_from_its_own_first_row(records):
    data = corpus_data(records, make_tokenizer(), steps=6, phases=[(16, 0.5, 2), (24, 0.5, 3)], packed=False)
    found = next(iter(data.from_step(1, 5)))[0]["token_ids"]
    expected = next(iter(data.batches(1, start_step=2)))[0]["token_ids"]
    assert found.shape == (3, 24) and (found.numpy() == expected.numpy()).all()


def test_nothing_is_left_behind(tmp_path):
    options = {"vocabulary": make_tokenizer(), "output": tmp_path / "run"}
    with pytest.raises(ValueError, match="`steps` must be a multiple of `steps_per_execution`. Received: 9 and 8"):
        kbert.pretrain(make_documents(9), steps=9, execution=Execution(steps_per_execution=8), **options)
    with pytest.raises(ValueError, match="`precision` must be one of .* Received: 'maybe'"):
        kbert.pretrain(make_documents(9), steps=8, precision="maybe", **options)
    assert not (tmp_path / "run").exists()
