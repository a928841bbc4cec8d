"""What the tests of the playground share: tiny models of every kind in directories, and a client that asks them."""

import pytest
from helpers.playground import asking
from helpers.served_models import make_pipeline
from helpers.tiny_bert import VOCABULARY

import kbert
from kbert.inspection.playground.app import PlaygroundApp
from kbert.text.vocabulary import write_vocabulary

KINDS = ("fill_mask", "encoder", "span", "tagging", "single", "pair", "regression")


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """models/<kind>: kbert directories of `helpers.served_models.make_pipeline`; vocab.txt."""
    path = tmp_path_factory.mktemp("playground")
    for kind in KINDS:
        kbert.save_pretrained(make_pipeline(kind)[0], path / "models" / kind)
    write_vocabulary(path / "vocab.txt", VOCABULARY)
    return path


@pytest.fixture(scope="session")
def app(home):
    """The playground of all kbert directories."""
    return PlaygroundApp([home / "models" / kind for kind in KINDS], vocabulary=home / "vocab.txt")


@pytest.fixture(scope="session")
def ask(app):
    """Asks a view: ``ask(view, status=200, **question)`` gives the JSON that was answered."""
    return asking(app)
