"""A run that is given more steps ends as one that had them from the start, where its past is the same."""

import pytest
from helpers import tiny_pretraining as tiny
from helpers.compare import assert_arrays_equal

from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_stable_decay import WarmupStableDecay
from kbert.training.resume import fit_steps
from kbert.training.run_directory import check_extension, open_run


def _schedule(settings):
    return WarmupStableDecay(0.01, 3)


def _model():
    return tiny.compiled_model(optimizer=AdamW(_schedule({})))


def _train(path, steps):
    """What a recipe does: opens the run, trains, finishes. Returns all weights and states."""
    run = open_run(path, {"steps": steps}, schedule=_schedule)
    model = tiny.reused(_model)
    history = fit_steps(model, tiny.make_dataset, steps, path, window=tiny.WINDOW)
    run.finish({"loss": history[-1]["loss"]}, keep_checkpoint=True)
    return [variable.numpy() for variable in model.variables], history


def test_a_finished_run_that_is_extended_is_the_longer_run(tmp_path):
    whole, expected = _train(tmp_path / "whole", 11)
    _train(tmp_path / "extended", 6)  # no multiple of the window
    extended, history = _train(tmp_path / "extended", 11)
    assert_arrays_equal(extended, whole)
    assert [record["step"] for record in history] == [4, 6, 8, 11] and history[-1]["loss"] == expected[-1]["loss"]
    left = [entry.name for entry in (tmp_path / "extended" / "checkpoints").iterdir()]
    assert left == ["step-0000000011"]


def test_the_decay_of_the_paper_depends_on_the_number_of_steps_but_its_warmup_does_not():
    there, now = WarmupLinearDecay(1.0, 30, 300), WarmupLinearDecay(1.0, 30, 400)
    check_extension("run", there, now, 30, 300, 400)
    with pytest.raises(FileExistsError, match="at step 30 it was 0.9, of 400 steps it would have been 0.925"):
        check_extension("run", there, now, 31, 300, 400)
    with pytest.raises(FileExistsError, match="at step 1 it was 0.03333, .* 0.025"):  # another warm-up
        check_extension("run", there, WarmupLinearDecay(1.0, 40, 400), 2, 300, 400)
    check_extension("run", WarmupStableDecay(1.0, 30), WarmupStableDecay(1.0, 30), 300, 300, 400)
    check_extension("run", there, WarmupLinearDecay(0.5, 10, 400), 0, 300, 400)  # nothing was done yet
