"""The models of a playground have names, and are loaded when they are first used."""

import sys

import pytest
from helpers.stored_models import make_model
from helpers.tiny_bert import tiny_tokenizer

import kbert
from kbert.cli import run_command
from kbert.commands.inspecting import COMMANDS, playground
from kbert.errors import MissingPackage
from kbert.inspection.playground import models as module
from kbert.inspection.playground.models import named_models


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    for run in ("one", "two"):
        kbert.save_pretrained(make_model("pretraining"), home / run / "model", tokenizer=tiny_tokenizer())
    kbert.save_pretrained(make_model("encoder"), home / "other", format="google")  # without a vocabulary
    return home


def test_names(home):
    paths = [home / "one" / "model", home / "two", home / "two"]
    assert [(name, one.source) for name, one in named_models(paths).items()] == [
        ("one", str(paths[0])),
        ("two", str(paths[1])),
    ]
    same = [home / "one", home / "one/model"]
    assert list(named_models(same)) == list(map(str, same))


def test_weights_are_read_once_and_when_first_used(home, monkeypatch):
    loaded = []
    original = module.load_pretrained
    monkeypatch.setattr(
        module, "load_pretrained", lambda source, **rest: loaded.append(source) or original(source, **rest)
    )
    models = named_models([home / "one", home / "two"])
    assert loaded == []
    assert models["two"].pipeline.model is models["two"].model and models["two"].tokenizer.mask_id
    assert loaded == [str(home / "two")]


def test_a_model_of_packed_rows_takes_plain_ones(tmp_path):
    packed = make_model("pretraining").with_parts(3)
    kbert.save_pretrained(packed, tmp_path / "packed", tokenizer=tiny_tokenizer())
    (model,) = named_models([tmp_path / "packed"]).values()
    assert model.model.encoder.num_parts is None and "part_ids" not in model.model.input


@pytest.mark.parametrize("words, message", [([], "MODELS is required"), (["one", "--port", "65536"], "65535")])
def test_a_wrong_command_line_starts_nothing(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        run_command(COMMANDS["playground"], words, "kbert playground")
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_without_gradio_the_command_says_what_to_install(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "kbert.inspection.playground.app", raising=False)
    with pytest.raises(MissingPackage, match=r'pip install "gradio>=6.31,<7", which the extra `playground` installs'):
        playground([str(home / "one")])


@pytest.mark.parametrize(
    "sources, error, message",
    [
        ([], ValueError, "at least one model, such as saved_models/kbert-tiny. Received: none"),
        (["nowhere/model"], FileNotFoundError, "nowhere/model"),
        (["{home}/other"], ValueError, "expected a model with a vocabulary"),
    ],
)
def test_wrong_sources(home, sources, error, message):
    with pytest.raises(error, match=message):
        named_models([source.format(home=home) for source in sources])
