"""What lies at a path is recognised by its content; what is no path may be a name on the hub."""

import shutil
import sys
import types

import pytest
from helpers.hf_directory import GOLDEN
from helpers.stored_models import load, make_model, save
from helpers.tiny_bert import VOCABULARY, tiny_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.weights.open_checkpoint import open_checkpoint


def format_of(path):
    return open_checkpoint(path).format


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The same encoder in every format."""
    path = tmp_path_factory.mktemp("saved")
    for format in ("kbert", "huggingface", "google", "kerashub"):
        save(make_model("encoder"), path / format, format)
    return path


@pytest.mark.parametrize("format", ["kbert", "huggingface", "google", "kerashub"])
@pytest.mark.parametrize("place", ["it", "run/model"])
def test_every_format_is_recognised_by_content(format, place, saved, tmp_path):
    shutil.copytree(saved / format, tmp_path / place)
    assert format_of(tmp_path / place.split("/")[0]) == format
    assert format_of(str(tmp_path / place)) == format


@pytest.mark.parametrize("format", ["kbert", "huggingface", "google", "kerashub"])
def test_every_format_keeps_a_vocabulary_with_an_empty_line(format, tmp_path):
    """As that of bert-base-japanese, whose other tokens keep their ids."""
    tokens = ["" if token == "bad" else token for token in VOCABULARY]
    tokenizer = kbert.BertTokenizer(tokens)
    kbert.save_pretrained(make_model("encoder"), tmp_path / "model", format=format, tokenizer=tokenizer)
    read = load(tmp_path / "model").pretrained.tokenizer
    assert read.vocabulary == tokens
    assert read(["a very bad film"]).to_list() == [[VOCABULARY.index(t) for t in ("a", "very", "[UNK]", "film")]]


@pytest.mark.parametrize(
    "format,file",
    [
        ("kbert", "model.weights.h5"),
        ("kbert", "config.json"),
        ("kerashub", "model.weights.h5"),
        ("kerashub", "config.json"),
    ],
)
def test_a_file_stands_for_its_directory(saved, format, file):
    assert format_of(saved / format / file) == format


def test_a_directory_of_two_formats(tmp_path):
    """Hugging Face's copies of Google's models have Google's config beside their own."""
    shutil.copytree(GOLDEN / "hf_safetensors", tmp_path / "it")
    shutil.copy(GOLDEN / "google_pretraining/bert_config.json", tmp_path / "it")
    assert format_of(tmp_path / "it") == "huggingface"
    (tmp_path / "it/config.json").unlink()
    for file in (GOLDEN / "google_pretraining").glob("bert_model.ckpt.*"):
        shutil.copy(file, tmp_path / "it")
    assert format_of(tmp_path / "it") == "google"


def test_something_else(tmp_path):
    def open_directory_with(files):
        shutil.rmtree(tmp_path / "it", ignore_errors=True)
        (tmp_path / "it" / "2").mkdir(parents=True)
        for name in files:
            (tmp_path / "it" / name).write_text("{}")
        if not (tmp_path / "it" / "2" / "saved_model.pb").exists():
            (tmp_path / "it" / "2").rmdir()
        open_checkpoint(tmp_path / "it")

    wrong_inputs(
        open_directory_with,
        ([], "which holds nothing"),
        (["notes.txt"], r"which holds \['notes.txt'\]"),
        (["config.json"], "Expected a kbert directory"),
        (["model.safetensors"], "Expected a kbert directory"),
        (["saved_model.pb"], "an exported SavedModel: kbert predict --source and tf.saved_model.load read it"),
        (["2/saved_model.pb"], "give the directory that it was exported from"),
    )
    for name, message in (("model.keras", "keras.models.load_model"), ("x.bin", "none of their files")):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(ValueError, match=message):
            open_checkpoint(tmp_path / name)


def test_a_kbert_directory_has_its_own_vocabulary(tmp_path):
    kbert.save_pretrained(make_model("encoder"), tmp_path / "it", tokenizer=tiny_tokenizer())
    with pytest.raises(ValueError, match="has a vocabulary of its own"):
        load(tmp_path / "it", vocabulary=tmp_path / "it/vocab.txt")


# The hub.


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


def test_a_name_on_the_hub(monkeypatch):
    hub = Hub(GOLDEN / "hf_safetensors")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    stored = open_checkpoint("owner/name")
    assert stored.format == "huggingface" and stored.description.task == "pretraining"
    assert sorted(hub.wanted) == [
        "1_Pooling/config.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_revision_and_a_token_go_to_the_hub_and_belong_to_no_path(monkeypatch, tmp_path):
    hub = Hub(GOLDEN / "hf_safetensors")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    load("owner/name", task="encoder", revision="v1", token="secret")
    assert hub.given == ("v1", "secret")
    load("owner/name@v1.2", task="encoder")
    assert hub.given == ("v1.2", None)
    with pytest.raises(ValueError, match="one revision. Received: 'owner/name@v1.2' and revision='v1'"):
        load("owner/name@v1.2", task="encoder", revision="v1")
    for given in ({"revision": "v1"}, {"token": "secret"}):
        with pytest.raises(ValueError, match="for a name on the hub only. Received: the path .*hf_safetensors$"):
            load(GOLDEN / "hf_safetensors", **given)


def test_the_hub_offline(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub(None, ConnectionError("no route to host")))
    message = (
        "'owner/name' does not exist here as a path.*ConnectionError: no route to host.*Without a network"
        ".*model.safetensors"
    )
    with pytest.raises(FileNotFoundError, match=message):
        open_checkpoint("owner/name")


def test_the_hub_offline_with_a_cache(monkeypatch):
    hub = Hub(None, ConnectionError("no route to host"), cached=GOLDEN / "hf_safetensors")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert open_checkpoint("owner/name").format == "huggingface"


def test_no_huggingface_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FileNotFoundError, match="pip install huggingface_hub.*Without a network"):
        open_checkpoint("owner/name")


@pytest.mark.parametrize(
    "name",
    ["/no/where", "./a/b/c", "a/b/c", "~/model", "models\\x", "owner/bert_model.ckpt", "x.safetensors", "runs/tyni"]
    + ["runs/tyni@v1", "runs@v1", "a/b/c@v1", "owner/x.bin@v1", "owner/name@", "owner/name@a/b", "owner/name@7"],
)
def test_a_path_is_no_name(monkeypatch, name, tmp_path):
    """What could be a path mistyped is never looked up on the hub."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    hub = Hub(None)
    monkeypatch.setattr(hub, "get_session", lambda: pytest.fail("the hub was asked"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(FileNotFoundError, match=r"does not exist($|\. \((Names on the hub|A number after @)|\. In )"):
        open_checkpoint(name)


def test_names_like_a_mistyped_path_are_told(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/tiny").mkdir(parents=True)
    (tmp_path / "runs/other").mkdir()
    with pytest.raises(FileNotFoundError, match="'runs/tyni', which does not exist. In runs there is: tiny$"):
        open_checkpoint("runs/tyni")
    with pytest.raises(FileNotFoundError, match="In .*test_names_like.* there is: runs$"):
        open_checkpoint(tmp_path / "run/tiny/model")


def test_without_a_directory_of_that_name_the_hub_is_asked_and_the_error_names_the_path(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub(None, ConnectionError("no route to host")))
    with pytest.raises(FileNotFoundError, match="'runs/tyni' does not exist here as a path.*ConnectionError"):
        open_checkpoint("runs/tyni")


def test_kberts_own_models_are_no_names_on_the_hub(monkeypatch, tmp_path):
    """README's first lines, tried outside the checkout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub(None, ConnectionError("no route to host")))
    with pytest.raises(FileNotFoundError, match="does not exist. kbert's own models are in .* its repository") as error:
        open_checkpoint("saved_models/kbert-mini")
    assert "huggingface.co" not in str(error.value) and "In " not in str(error.value)


def test_a_name_on_the_hub_beside_a_directory_of_its_owner(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "google").mkdir()
    with pytest.raises(FileNotFoundError, match="on the hub are not looked up where there is a directory google here"):
        open_checkpoint("google/bert_uncased")
    with pytest.raises(FileNotFoundError, match="does not exist$"):
        open_checkpoint("google/models/bert.ckpt")
