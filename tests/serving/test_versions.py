"""Versions of an export: numbered, whole or not there, never overwritten."""

import pathlib

import pytest
from helpers.served_models import make_pipeline

import kbert


def test_versions(tmp_path, monkeypatch):
    import kbert.serving.export as module

    pipeline = make_pipeline("regression")[0]
    monkeypatch.setattr(module, "write_saved_model", _write_nothing)
    for name in ("set_methods", "audit", "model_card", "write_card", "write_warmup"):
        monkeypatch.setattr(module, name, _Anything())
    directory = tmp_path / "models" / "score"
    assert kbert.export(pipeline, directory) == directory / "1"
    assert kbert.export(pipeline, str(directory), version=7) == directory / "7"
    assert kbert.export(pipeline, directory) == directory / "8"
    with pytest.raises(FileExistsError, match=r"version 7 of .* exists. Versions: \[1, 7, 8\]"):
        kbert.export(pipeline, directory, version=7)
    for version in (0, -1, "2", True):
        with pytest.raises(ValueError, match="positive integer"):
            kbert.export(pipeline, directory, version=version)
    (directory / "card.json").write_text("{}")
    assert kbert.export(pipeline, directory) == directory / "9"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/notes.txt").write_text("precious")
    with pytest.raises(FileExistsError, match="notes.txt"):
        kbert.export(pipeline, tmp_path / "thesis")
    with pytest.raises(TypeError, match="build_pipeline"):
        kbert.export(pipeline.model, tmp_path / "other")
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError, match="which is a file"):
        kbert.export(pipeline, tmp_path / "file")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "models", "thesis"]


def test_two_exports_at_once(tmp_path, monkeypatch):
    import kbert.serving.export as module

    pipeline, directory, cards = make_pipeline("regression")[0], tmp_path / "score", []

    def rival(path, card):
        cards.append(card)
        if len(cards) % 2:  # has finished first
            (directory / card / "variables").mkdir(parents=True)

    monkeypatch.setattr(module, "write_saved_model", _write_nothing)
    for name in ("set_methods", "audit", "write_warmup"):
        monkeypatch.setattr(module, name, _Anything())
    monkeypatch.setattr(module, "model_card", lambda name, version, *more: str(version))
    monkeypatch.setattr(module, "write_card", rival)
    assert kbert.export(pipeline, directory) == directory / "2" and cards == ["1", "2"]
    assert (directory / "1/variables").is_dir() and not (directory / "2/variables").exists()
    with pytest.raises(FileExistsError, match="version 7 of .* exists"):
        kbert.export(pipeline, directory, version=7)
    assert [entry.name for entry in tmp_path.iterdir()] == ["score"]


def _write_nothing(directory, endpoints):
    pathlib.Path(directory).mkdir()


class _Anything:
    """Stands for a step of the export that is not looked at."""

    def __call__(self, *arguments):
        return self

    def require_clean(self):
        pass


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    import kbert.serving.export as module

    def fail(directory, endpoints):
        (pathlib.Path(directory) / "saved_model.pb").write_text("half")
        raise OSError("No space left on device")

    monkeypatch.setattr(module, "write_saved_model", fail)
    with pytest.raises(OSError, match="No space"):
        kbert.export(make_pipeline("regression")[0], tmp_path / "score")
    assert not list(tmp_path.iterdir())


def test_a_model_that_no_server_runs_is_not_written(tmp_path, monkeypatch):
    import kbert.serving.audit as audit_module

    monkeypatch.setitem(audit_module.TEXT_OPS, "NormalizeUTF8", "2.20")
    with pytest.raises(ValueError, match="NormalizeUTF8 is in no server before 2.20"):
        kbert.export(make_pipeline("regression")[0], tmp_path / "score")
    assert not list(tmp_path.iterdir())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
