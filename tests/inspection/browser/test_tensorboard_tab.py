"""The tab kbert of a live TensorBoard, in a real browser: the page of the playground in TensorBoard's frame."""

import pytest
from helpers.browser import NoBrowserError, start_browser
from helpers.stored_models import make_model
from helpers.tiny_bert import tiny_tokenizer
from tensorboard import default, program

import kbert
from kbert.inspection.playground.plugin import PlaygroundLoader
from kbert.pipelines.settings import ModelSettings

pytestmark = pytest.mark.parity  # .ci/run has a browser and fails if this was skipped


@pytest.fixture(scope="module")
def tensorboard(tmp_path_factory):
    """The URL of a TensorBoard over a run with a model and one number."""
    import tensorflow as tf

    run = tmp_path_factory.mktemp("runs") / "tiny"
    settings = ModelSettings(sequence_length=17)
    kbert.save_pretrained(make_model("pretraining"), run / "model", tokenizer=tiny_tokenizer(), settings=settings)
    with tf.summary.create_file_writer(str(run / "logs" / "train")).as_default(step=1):
        tf.summary.scalar("loss/loss", 2.0)
    board = program.TensorBoard(plugins=[*default.get_static_plugins(), PlaygroundLoader])
    board.configure(logdir=str(run.parent), port=0, host="127.0.0.1", load_fast="false", reload_interval=3600)
    return board.launch()


@pytest.fixture(scope="module")
def browser():
    try:
        browser = start_browser()
    except NoBrowserError as reason:
        pytest.skip(str(reason))
    yield browser
    browser.driver.quit()


def test_the_tab(browser, tensorboard):
    """It is there, shows the run's model, answers, follows TensorBoard's colours, and asks no other host."""
    browser.driver.get(f"{tensorboard}#kbert")
    frame = browser.wait(lambda: browser.js("return document.querySelector('iframe[src*=plugin_entry]')"))
    browser.driver.switch_to.frame(frame)
    browser.wait(lambda: browser.js("return document.documentElement.dataset.ready === 'yes'"))
    browser.settle()
    assert browser.one("h1").text == "kbert playground" and len(browser.all("[name=model]")) == 1
    assert browser.texts("tbody tr") and browser.all(".bars")  # with the model's predictions
    browser.one("[name=resample]").click()
    browser.settle()
    browser.view("attention")
    assert browser.all(".lines line")
    assert browser.js("return document.documentElement.dataset.theme") == "light"
    browser.js("window.parent.document.body.classList.add('dark-mode')")
    browser.wait(lambda: browser.js("return document.documentElement.dataset.theme") == "dark")
    assert browser.js("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.requests()
    assert browser.hosts == {tensorboard.split("/")[2]}
    assert browser.console("SEVERE") == []  # TensorBoard's own script has warnings
