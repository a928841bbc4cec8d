"""Models from and to the Hugging Face hub, with a stand-in of huggingface_hub: names, revisions, no network, faults."""

import inspect
import shutil
import sys
import types

import pytest
from helpers.hf_directory import GOLDEN
from helpers.stored_models import load, make_model, save
from helpers.wrong_values import wrong_inputs

from kbert.weights.open_checkpoint import open_checkpoint

MODEL = GOLDEN / "hf_safetensors"


class Hub(types.ModuleType):
    """A stand-in for huggingface_hub that serves one directory; the functions that kbert calls, as they are there."""

    def __init__(self):
        super().__init__("huggingface_hub")
        self.directory, self.error, self.cached, self.uploads = MODEL, None, None, None
        self.repositories = {}
        self.constants = types.SimpleNamespace(ENDPOINT="https://hub")

    def get_session(self):
        return types.SimpleNamespace(head=self.head)

    def head(self, url, timeout):
        assert timeout <= 10
        if self.error:
            raise self.error

    def list_repo_files(self, name, revision, token):
        assert name == "owner/name"
        more = ["tf_model.h5", "pytorch_model.bin", "onnx/model.onnx", "README.md", "1_Pooling/config.json"]
        return [path.name for path in self.directory.iterdir()] + more

    def snapshot_download(self, name, allow_patterns=None, local_files_only=False, revision=None, token=None):
        self.asked = revision, token
        if not local_files_only:
            self.wanted = allow_patterns
        elif self.cached is None:
            raise LookupError("not in the cache")
        return str(self.directory)

    def create_repo(self, repo_id, *, private=None, exist_ok=False):
        self.repositories[repo_id] = {"private": private, "exist_ok": exist_ok}

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        assert repo_id in self.repositories and commit_message
        if isinstance(self.uploads, Exception):
            raise self.uploads
        shutil.copytree(folder_path, self.uploads / repo_id)


@pytest.fixture
def hub(monkeypatch):
    stand_in = Hub()
    monkeypatch.setitem(sys.modules, "huggingface_hub", stand_in)
    return stand_in


def test_a_name_on_the_hub(hub):
    stored = open_checkpoint("owner/name")
    assert stored.names.format == "huggingface" and stored.description.task == "pretraining"
    names = ["1_Pooling/config.json", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(hub.wanted) == names


def test_a_revision_and_a_token_go_to_the_hub_and_belong_to_no_path(hub):
    load("owner/name", task="encoder", revision="v1", token="secret")
    assert hub.asked == ("v1", "secret")
    open_checkpoint("owner/name@v1.2")
    assert hub.asked == ("v1.2", None)
    with pytest.raises(ValueError, match="one revision. Received: 'owner/name@v1.2' and revision='v1'"):
        open_checkpoint("owner/name@v1.2", revision="v1")
    for option in ({"revision": "v1"}, {"token": "secret"}):
        with pytest.raises(ValueError, match="for a name on the hub only. Received: the path .*hf_safetensors$"):
            open_checkpoint(MODEL, **option)


def test_offline_only_the_cache_is_there(hub):
    hub.error = ConnectionError("no route to host")
    message = "'owner/name' does not exist here as a path.*no route to host.*Without a network.*model.safetensors"
    with pytest.raises(FileNotFoundError, match=message):
        open_checkpoint("owner/name")
    hub.cached = True
    assert open_checkpoint("owner/name").names.format == "huggingface"


def test_without_huggingface_hub(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FileNotFoundError, match="pip install huggingface_hub.*Without a network"):
        open_checkpoint("owner/name")
    with pytest.raises(ImportError, match="pip install huggingface_hub"):
        save(make_model("encoder", num_layers=1), tmp_path / "model", "kbert", push_to_hub="me/tiny")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "name",
    ["/no/where", "./a/b/c", "a/b/c", "~/model", "models\\x", "owner/bert_model.ckpt", "x.safetensors", "runs/tyni"]
    + ["runs/tyni@v1", "runs@v1", "a/b/c@v1", "owner/x.bin@v1", "owner/name@", "owner/name@a/b", "owner/name@7"],
)
def test_a_path_is_no_name(hub, monkeypatch, name, tmp_path):
    """What could be a path mistyped is never looked up on the hub."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    hub.get_session = lambda: pytest.fail("the hub was asked")
    with pytest.raises(FileNotFoundError, match=r"does not exist($|\. \((Names on the hub|A number after @)|\. In )"):
        open_checkpoint(name)


def test_a_mistyped_path_is_told_what_is_there(hub, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    hub.error = ConnectionError("no route to host")
    wrong_inputs(  # README's first lines, tried outside the checkout
        open_checkpoint,
        ("runs/tyni", "'runs/tyni' does not exist here as a path.*ConnectionError"),
        (
            "saved_models/kbert-mini",
            "does not exist. kbert's own models are in .* its repository",
        ),
        error=FileNotFoundError,
    )
    (tmp_path / "runs/tiny").mkdir(parents=True)
    (tmp_path / "google").mkdir()
    wrong_inputs(
        open_checkpoint,
        ("runs/tyni", "'runs/tyni', which does not exist. In runs there is: tiny$"),
        (tmp_path / "run/tiny/model", "In .*test_a_mistyped_path.* there is: runs$"),
        ("google/bert", "Names on the hub are not looked up where there is a directory google here"),
        ("google/models/bert.ckpt", "does not exist$"),
        error=FileNotFoundError,
    )


# save_pretrained(push_to_hub=...)


def push(tmp_path, name):
    save(make_model("encoder", num_layers=1), tmp_path / "model", "kbert", push_to_hub=name)


def test_the_directory_is_uploaded_whole(hub, tmp_path):
    hub.uploads = tmp_path / "hub"
    push(tmp_path, "me/tiny")
    assert hub.repositories == {"me/tiny": {"private": True, "exist_ok": True}}
    for file in (tmp_path / "model").iterdir():
        assert (tmp_path / "hub/me/tiny" / file.name).read_bytes() == file.read_bytes()


def test_other_names_are_errors_before_anything_is_written(hub, tmp_path):
    wrong_inputs(
        lambda name: push(tmp_path, name),
        *((name, "`push_to_hub` must be .* 'owner/name'") for name in ("tiny", "me/tiny@main", "./me/tiny", 3)),
    )
    assert not (tmp_path / "model").exists() and not hub.repositories


def test_a_failed_upload_leaves_the_directory_and_says_how_to_go_on(hub, tmp_path):
    hub.uploads = RuntimeError("401 Unauthorized\nmore")
    with pytest.raises(OSError, match=r"model was written, .*RuntimeError: 401 Unauthorized\).* hf upload me/tiny"):
        push(tmp_path, "me/tiny")
    assert open_checkpoint(tmp_path / "model").description.task == "encoder"


def test_the_real_library_has_these_arguments():
    huggingface_hub = pytest.importorskip("huggingface_hub")
    for name in ("create_repo", "upload_folder"):
        ours = inspect.signature(getattr(Hub, name)).parameters.keys() - {"self"}
        assert ours <= inspect.signature(getattr(huggingface_hub, name)).parameters.keys()
