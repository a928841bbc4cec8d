"""`save_pretrained(push_to_hub=...)`, with a stand-in of huggingface_hub: what is created and uploaded, and faults."""

import pathlib
import shutil
import sys
import types

import pytest
from helpers.tiny_corpus import make_pretrainer, make_tokenizer

import kbert


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The functions that kbert calls, with their arguments' names in huggingface_hub, and what they were given."""
    repositories = {}

    def create_repo(repo_id, *, private=None, exist_ok=False):
        repositories[repo_id] = {"private": private, "exist_ok": exist_ok}

    def upload_folder(*, repo_id, folder_path, commit_message):
        assert repo_id in repositories and commit_message
        shutil.copytree(folder_path, tmp_path / "hub" / repo_id)

    stand_in = types.SimpleNamespace(create_repo=create_repo, upload_folder=upload_folder, repositories=repositories)
    monkeypatch.setitem(sys.modules, "huggingface_hub", stand_in)
    return stand_in


def save(path, **options):
    kbert.save_pretrained(make_pretrainer(16), path, tokenizer=make_tokenizer(), **options)


def test_the_directory_is_uploaded_whole(hub, tmp_path):
    save(tmp_path / "model", push_to_hub="me/tiny")
    assert hub.repositories == {"me/tiny": {"private": True, "exist_ok": True}}
    uploaded = tmp_path / "hub/me/tiny"
    names = {path.name for path in pathlib.Path(tmp_path / "model").iterdir()}
    assert {path.name for path in uploaded.iterdir()} == names
    assert kbert.load_pretrained(uploaded).pretrained.tokenizer.vocabulary == make_tokenizer().vocabulary


@pytest.mark.parametrize("name", ["tiny", "me/tiny@main", "./me/tiny", 3])
def test_other_names_are_errors_before_anything_is_written(hub, tmp_path, name):
    with pytest.raises(ValueError, match="`push_to_hub` must be .* 'owner/name'"):
        save(tmp_path / "model", push_to_hub=name)
    assert not (tmp_path / "model").exists() and not hub.repositories


def test_a_failed_upload_leaves_the_directory_and_says_how_to_go_on(hub, tmp_path):
    def refuse(*_, **__):
        raise RuntimeError("401 Unauthorized\nmore")

    hub.upload_folder = refuse
    with pytest.raises(OSError, match=r"model was written, .*RuntimeError: 401 Unauthorized\).* hf upload me/tiny"):
        save(tmp_path / "model", push_to_hub="me/tiny")
    assert kbert.load_pretrained(tmp_path / "model").task == "pretraining"


def test_without_huggingface_hub(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface_hub"):
        save(tmp_path / "model", push_to_hub="me/tiny")
    assert not (tmp_path / "model").exists()


def test_the_real_library_has_these_arguments():
    huggingface_hub = pytest.importorskip("huggingface_hub")
    import inspect

    assert {"repo_id", "private", "exist_ok"} <= inspect.signature(huggingface_hub.create_repo).parameters.keys()
    wanted = {"repo_id", "folder_path", "commit_message"}
    assert wanted <= inspect.signature(huggingface_hub.upload_folder).parameters.keys()
