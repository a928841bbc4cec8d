"""What the tests in a browser share: one Chromium, one directory of runs, one playground that serves their models."""

import pytest
from helpers.browser import NoBrowserError, start_browser
from helpers.model_settings import settings_of
from helpers.playground import serving
from helpers.stored_models import make_model
from helpers.tiny_bert import tiny_tokenizer

import kbert

TASKS = {
    "pretraining": {},
    "span": {"pair": True},
    "tagging": {"labels": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]},
    "classification": {"labels": ["good", "bad", "neither"]},
}


@pytest.fixture(scope="session")
def chromium():
    """The browser, for all files: it takes seconds to start."""
    try:
        browser = start_browser()
    except NoBrowserError as reason:
        pytest.skip(str(reason))
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(chromium):
    """The browser, without what it did for other tests."""
    chromium.console(), chromium.requests()
    chromium.hosts.clear()
    yield chromium
    chromium.driver.get("about:blank")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A run with a model for each task, with random weights; the run of the pre-training has one number."""
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("runs")
    for task, fields in TASKS.items():
        settings = settings_of(task, 17, **fields)
        kbert.save_pretrained(make_model(task), folder / task / "model", tokenizer=tiny_tokenizer(), settings=settings)
    with tf.summary.create_file_writer(str(folder / "pretraining" / "logs" / "train")).as_default(step=1):
        tf.summary.scalar("loss/loss", 2.0)
    return folder


@pytest.fixture(scope="session")
def server(runs):
    """The address of a playground with the models of all runs."""
    with serving([runs / task / "model" for task in TASKS]) as address:
        yield address
