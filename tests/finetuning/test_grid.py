"""`finetune_grid`: the best on dev is kept, a killed grid goes on, other settings and examples are refused."""

import functools
import importlib
import inspect
import shutil
import types

import pytest
from helpers.tiny_directory import write_tiny_directory
from helpers.tiny_finetuning import DEV, ROWS, TASK

import kbert
from kbert.files import read_json
from kbert.finetuning import finetune_grid
from kbert.options import Distillation

pytestmark = pytest.mark.usefixtures("eagerly")

VALUES = {"learning_rates": (1e-9, 2e-3), "epochs": (0.5,), "batch_sizes": (8,)}
OPTIONS = {"sequence_length": 9}


@pytest.fixture
def source(tmp_path):
    return write_tiny_directory(tmp_path / "tiny")


def test_the_best_on_dev_is_kept_and_a_killed_grid_goes_on(source, tmp_path, monkeypatch):
    module = importlib.import_module("kbert.finetuning.grid")
    started, finetune = [], module.finetune

    def killed_at_the_second(source, task, train, dev, output, **options):
        if not (output / "metrics.json").exists():
            started.append(options["learning_rate"])
            if len(started) == 2:
                raise KeyboardInterrupt
        return finetune(source, task, train, dev, output, **options)

    monkeypatch.setattr(module, "finetune", killed_at_the_second)
    output = tmp_path / "grid"
    with pytest.raises(KeyboardInterrupt):
        finetune_grid(source, TASK, ROWS, DEV, output, **VALUES, **OPTIONS)
    result = finetune_grid(source, TASK, ROWS, DEV, output, **VALUES, **OPTIONS)
    assert started == [1e-9, 2e-3, 2e-3]  # the finished one is not repeated
    scores = {run["learning_rate"]: run["dev"][result["metric"]] for run in result["runs"]}
    assert set(scores) == set(VALUES["learning_rates"])
    assert scores[result["best"]["learning_rate"]] == max(scores.values())
    assert result == read_json(output / "grid.json")
    folder = output / result["best"]["folder"]
    assert (output / "model/kbert.json").read_bytes() == (folder / "model/kbert.json").read_bytes()
    assert kbert.load_pretrained(output).task == "classification"
    for examples, options, error in (
        (ROWS[:-1], {}, "Received: other rows in train"),
        (ROWS, {"warmup_proportion": 0.2}, r"a finished run with other settings \(warmup_proportion"),
    ):
        with pytest.raises((FileExistsError, ValueError), match=error):
            rates = {"learning_rates": (1e-4, *VALUES["learning_rates"])}  # the finished ones are looked at first
            finetune_grid(source, TASK, examples, DEV, output, **VALUES | rates, **OPTIONS, **options)
    assert len(started) == 3


def test_a_grid_of_students_goes_on_with_its_teacher_alone(source, tmp_path):
    teacher = kbert.finetune(source, TASK, ROWS, output=tmp_path / "teacher", steps=1, sequence_length=9).path
    values = VALUES | {"learning_rates": (1e-3,)} | OPTIONS
    texts = {"text": ["the film", "good"]}
    first = finetune_grid(source, TASK, ROWS, DEV, tmp_path / "grid", teacher=teacher, unlabelled=texts, **values)
    again = finetune_grid(source, TASK, ROWS, DEV, tmp_path / "grid", teacher=teacher, unlabelled=texts, **values)
    assert again == first
    taught = {"teacher": teacher, "unlabelled": texts}
    for other, name in (
        ({}, r"other settings \(teacher"),
        ({"teacher": shutil.copytree(teacher, tmp_path / "copy")}, r"other settings \(teacher"),
        (taught | {"distillation": Distillation(hard_fraction=0.1)}, r"other settings \(hard_fraction"),
        (taught | {"unlabelled": None}, "other rows in unlabelled"),
        (taught | {"unlabelled": {"text": ["the film"]}}, "other rows in unlabelled"),
    ):
        with pytest.raises((FileExistsError, ValueError), match=name):
            finetune_grid(source, TASK, ROWS, DEV, tmp_path / "grid", **other, **values)
    kbert.finetune(source, TASK, ROWS, output=teacher, steps=2, sequence_length=9, overwrite=True)
    with pytest.raises(ValueError, match=r"\(--teacher\) has changed"):
        finetune_grid(source, TASK, ROWS, DEV, tmp_path / "grid", **taught, **values)


def test_a_grid_knows_all_its_dev_sets_and_what_it_may_delete(source, tmp_path):
    values = VALUES | {"learning_rates": (1e-3,)} | OPTIONS
    grid = functools.partial(finetune_grid, source, TASK, ROWS, DEV, tmp_path / "grid", **values)
    first = grid(more_dev={"_more": ROWS})
    assert "accuracy_more" in first["best"]["dev"] and grid(more_dev={"_more": ROWS}) == first
    for more_dev, name in (({"_more": DEV}, "_more"), ({}, "_more"), ({"_other": ROWS}, "_more and more_dev_other")):
        with pytest.raises(ValueError, match=f"other rows in more_dev{name}. "):
            grid(more_dev=more_dev)
    assert grid(more_dev={"_more": ROWS}, overwrite=True, dry_run=True)["runs"] == 0
    assert "accuracy_more" not in grid(overwrite=True)["best"]["dev"]


def test_a_grid_passes_every_option_on(source, tmp_path, monkeypatch):
    own = inspect.signature(finetune_grid).parameters.keys() & inspect.signature(kbert.finetune).parameters.keys()
    options = {name: object() for name in own - {"source", "task", "train", "dev", "output", "epochs", "dry_run"}}
    passed = {}

    def finetune(*examples, **given):
        passed.update(given)
        return types.SimpleNamespace(metrics={})

    monkeypatch.setattr(importlib.import_module("kbert.finetuning.grid"), "finetune", finetune)
    inspect.unwrap(finetune_grid)(source, TASK, ROWS, DEV, tmp_path / "grid", dry_run=True, **options)
    assert len(options) > 20 and passed | options == passed


def test_rates_epochs_and_batch_sizes_are_all_combined(source, tmp_path):
    values = {"learning_rates": (1e-4, 1e-3), "epochs": (1, 2), "batch_sizes": (8, 16)}
    assert finetune_grid(source, TASK, ROWS, DEV, tmp_path / "grid", dry_run=True, **values, **OPTIONS)["runs"] == 8


def test_what_is_no_grid_is_an_error(source, tmp_path):
    with pytest.raises(ValueError, match="at least one value .* Received: 0 combinations"):
        finetune_grid(source, TASK, ROWS, DEV, tmp_path / "grid", epochs=())
    with pytest.raises(ValueError, match="dev=None"):
        finetune_grid(source, TASK, ROWS, None, tmp_path / "grid")
    with pytest.raises(ValueError, match="`source` must be a path"):
        finetune_grid(kbert.load_pretrained(source), TASK, ROWS, DEV, tmp_path / "grid")
    assert not (tmp_path / "grid").exists()
