"""What the tests of the playground share: tiny models of every kind in directories, and a client that asks them."""

import pytest
from helpers.playground import asking
from helpers.served_models import make_pipeline
from helpers.tiny_bert import VOCABULARY, randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.inspection.playground.app import PlaygroundApp
from kbert.text.vocabulary import write_vocabulary

KINDS = ("fill_mask", "encoder", "span", "tagging", "single", "pair", "regression")


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """models/<kind>: kbert directories of `helpers.served_models.make_pipeline`, and left_to_right; vocab.txt."""
    path = tmp_path_factory.mktemp("playground")
    for kind in KINDS:
        kbert.save_pretrained(make_pipeline(kind)[0], path / "models" / kind)
    # Pooled at the last token, as left-to-right models are; its task is masked_lm.
    causal = kbert.BertPretrainer(tiny_config(causal=True, pooled_token="last"), next_sentence=False)
    kbert.save_pretrained(randomise(causal), path / "models" / "left_to_right", tokenizer=tiny_tokenizer())
    write_vocabulary(path / "vocab.txt", VOCABULARY)
    return path


@pytest.fixture(scope="session")
def app(home):
    """The playground of all kbert directories."""
    return PlaygroundApp([home / "models" / kind for kind in (*KINDS, "left_to_right")], vocabulary=home / "vocab.txt")


@pytest.fixture(scope="session")
def ask(app):
    """Asks a view: ``ask(view, status=200, **question)`` gives the JSON that was answered."""
    return asking(app)
