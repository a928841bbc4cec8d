"""Programs beside a training keep off its GPU."""

import pytest
import tensorflow as tf

from kbert.inspection.playground.app import PlaygroundApp
from kbert.training.hardware import processor_only


@pytest.fixture
def hidden(monkeypatch):
    """The calls by which devices were chosen."""
    calls = []
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *arguments: calls.append(arguments))
    return calls


def test_gpus_are_hidden(hidden):
    processor_only()
    assert hidden == [([], "GPU")]


def test_the_playground_hides_them_before_its_first_model(hidden):
    app = PlaygroundApp()
    assert hidden == []
    assert app.api.models and hidden == [([], "GPU")]


def test_what_is_in_use_stays_in_use(monkeypatch):
    def initialised(*_):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", initialised)
    processor_only()
