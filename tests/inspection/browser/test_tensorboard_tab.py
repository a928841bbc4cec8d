"""The tab kbert of a live TensorBoard, in a real browser: the page of the playground in TensorBoard's frame."""

import shutil

import pytest
from helpers.live_tensorboard import live_tensorboard

from kbert.inspection.playground.plugin import PlaygroundLoader

pytestmark = pytest.mark.parity  # .ci/run has a browser and fails if this was skipped


@pytest.fixture
def tensorboard(runs):
    """The URL of a TensorBoard over a run with a model and one number."""
    with live_tensorboard(runs / "pretraining", [PlaygroundLoader]) as board:
        yield board.url


def open_tab(browser, tensorboard):
    browser.driver.get(f"{tensorboard}/#kbert")
    frame = browser.wait(lambda: browser.js("return document.querySelector('iframe[src*=plugin_entry]')"))
    browser.driver.switch_to.frame(frame)
    browser.wait(lambda: browser.js("return document.documentElement.dataset.ready === 'yes'"))
    browser.settle()


def test_the_list_of_models_is_refreshed(browser, tensorboard, runs):
    """A model that came later is listed, and what was chosen stays chosen."""
    open_tab(browser, tensorboard)
    later = runs / "pretraining" / "later"
    names = "return [...document.querySelectorAll('[name=model]')].map((box) => [box.value, box.checked])"
    before = browser.js(names)
    shutil.copytree(runs / "span" / "model", later)
    try:
        browser.wait(lambda: len(browser.js(names)) == 2)
    finally:
        shutil.rmtree(later)
    assert [pair for pair in browser.js(names) if pair[1]] == before
    browser.wait(lambda: browser.js(names) == before)


def test_the_tab(browser, tensorboard):
    """It is there, shows the run's model, answers, follows TensorBoard's colours, and asks no other host."""
    open_tab(browser, tensorboard)
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
