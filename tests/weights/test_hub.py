"""Models from the Hugging Face hub, with stand-ins of huggingface_hub: names, revisions, no network, faults."""

import sys
import types

import pytest
from helpers.hf_directory import GOLDEN
from helpers.stored_models import load

from kbert.weights.source import open_checkpoint

NO_NETWORK = ConnectionError("no route to host")


class Hub(types.ModuleType):
    """A stand-in for huggingface_hub that serves one directory."""

    def __init__(self, directory, error=None, cached=None):
        super().__init__("huggingface_hub")
        self.directory, self.error, self.cached, self.wanted = directory, error, cached, None
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
        self.given = revision, token
        if local_files_only:
            if self.cached is None:
                raise LookupError("not in the cache")
            return str(self.cached)
        self.wanted = allow_patterns
        return str(self.directory)


@pytest.fixture
def serve(monkeypatch):
    """Function that puts a stand-in in the library's place."""

    def put(*arguments, **options):
        hub = Hub(*arguments, **options)
        monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
        return hub

    return put


def test_a_name_on_the_hub(serve):
    hub = serve(GOLDEN / "hf_safetensors")
    stored = open_checkpoint("owner/name")
    assert stored.names.format == "huggingface" and stored.description.task == "pretraining"
    assert sorted(hub.wanted) == [
        "1_Pooling/config.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_revision_and_a_token_go_to_the_hub_and_belong_to_no_path(serve):
    hub = serve(GOLDEN / "hf_safetensors")
    load("owner/name", task="encoder", revision="v1", token="secret")
    assert hub.given == ("v1", "secret")
    load("owner/name@v1.2", task="encoder")
    assert hub.given == ("v1.2", None)
    with pytest.raises(ValueError, match="one revision. Received: 'owner/name@v1.2' and revision='v1'"):
        load("owner/name@v1.2", task="encoder", revision="v1")
    for given in ({"revision": "v1"}, {"token": "secret"}):
        with pytest.raises(ValueError, match="for a name on the hub only. Received: the path .*hf_safetensors$"):
            load(GOLDEN / "hf_safetensors", **given)


def test_offline_only_the_cache_is_there(serve):
    serve(None, NO_NETWORK)
    message = "'owner/name' does not exist here as a path.*no route to host.*Without a network.*model.safetensors"
    with pytest.raises(FileNotFoundError, match=message):
        open_checkpoint("owner/name")
    serve(None, NO_NETWORK, cached=GOLDEN / "hf_safetensors")
    assert open_checkpoint("owner/name").names.format == "huggingface"


def test_no_huggingface_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FileNotFoundError, match="pip install huggingface_hub.*Without a network"):
        open_checkpoint("owner/name")


@pytest.mark.parametrize(
    "name",
    ["/no/where", "./a/b/c", "a/b/c", "~/model", "models\\x", "owner/bert_model.ckpt", "x.safetensors", "runs/tyni"]
    + ["runs/tyni@v1", "runs@v1", "a/b/c@v1", "owner/x.bin@v1", "owner/name@", "owner/name@a/b", "owner/name@7"],
)
def test_a_path_is_no_name(serve, monkeypatch, name, tmp_path):
    """What could be a path mistyped is never looked up on the hub."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    serve(None).get_session = lambda: pytest.fail("the hub was asked")
    with pytest.raises(FileNotFoundError, match="does not exist.*A name on the Hugging Face hub is"):
        open_checkpoint(name)


def test_names_like_a_mistyped_path_are_told(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/tiny").mkdir(parents=True)
    (tmp_path / "runs/other").mkdir()
    with pytest.raises(FileNotFoundError, match="'runs/tyni', which does not exist. In runs there is: tiny. "):
        open_checkpoint("runs/tyni")
    with pytest.raises(FileNotFoundError, match="In .*test_names_like.* there is: runs. "):
        open_checkpoint(tmp_path / "run/tiny/model")


def test_where_no_directory_has_the_name_it_may_be_on_the_hub(serve, monkeypatch, tmp_path):
    """README's first lines, tried outside the checkout."""
    monkeypatch.chdir(tmp_path)
    serve(None, NO_NETWORK)
    for name in ("runs/tyni", "saved_models/kbert-mini"):
        with pytest.raises(FileNotFoundError, match=f"'{name}' does not exist here as a path.*ConnectionError"):
            open_checkpoint(name)


def test_a_name_on_the_hub_beside_a_directory_of_its_owner(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "google").mkdir()
    with pytest.raises(FileNotFoundError, match="never begins with the name of a directory here"):
        open_checkpoint("google/bert_uncased")
    with pytest.raises(FileNotFoundError, match="does not exist. "):
        open_checkpoint("google/models/bert.ckpt")
