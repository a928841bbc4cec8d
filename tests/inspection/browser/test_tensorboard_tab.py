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


_OFTEN = """const real = window.setInterval;
window.setInterval = (run, wait, ...all) => real(run, wait === 10000 ? 300 : wait, ...all);"""


@pytest.fixture
def often(browser):
    """What the page does every ten seconds, as looking at the list of models, it does three times a second."""
    added = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _OFTEN})
    yield
    browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@pytest.mark.usefixtures("often")
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


# Unmarked is the harder one, where the tabs are too many for the window.
@pytest.fixture(params=[pytest.param(False, marks=pytest.mark.slow), True], ids=["plain", "custom scalars"])
def full_board(request, runs, tmp_path):
    """A TensorBoard with every tab that a run of kbert fills; with Custom Scalars they are wider than 1,400 pixels."""
    import tensorflow as tf
    from tensorboard.plugins.hparams import api

    from kbert.inspection.board.event_file import EventFile
    from kbert.inspection.board.summaries import custom_scalars

    shutil.copytree(runs / "pretraining", tmp_path / "run")
    with tf.summary.create_file_writer(str(tmp_path / "run/logs/more")).as_default(step=1):
        api.hparams({"learning_rate": 1e-4})
        tf.summary.scalar("accuracy/accuracy", 0.5)
        tf.summary.image("matrix", [[[[0.5]]]])
        tf.summary.text("example", "a film")
        tf.summary.histogram("weights", [1.0, 2.0])
        tf.summary.graph(tf.function(lambda x: x + 1).get_concrete_function(1.0).graph)
    if request.param:
        file = EventFile(tmp_path / "run/logs/train")
        file.write(0, [custom_scalars()])
        file.close()
    (tmp_path / "run/logs/more/projector_config.pbtxt").write_text('embeddings { tensor_path: "vectors.tsv" }')
    (tmp_path / "run/logs/more/vectors.tsv").write_text("0.1\t0.2\t0.3\n0.3\t0.1\t0.2\n0.2\t0.2\t0.9\n")
    with live_tensorboard(tmp_path, [PlaygroundLoader]) as board:
        yield board


def test_it_is_in_view_beside_all_tabs_of_a_run(browser, full_board):
    """At 1,400 pixels, where TensorBoard scrolls its tabs if they are too many: the open one, kbert, stays in view."""
    every_tab_fits = "custom_scalars" not in full_board.plugins()
    expected = {"scalars", "images", "text", "distributions", "histograms", "hparams", "projector", "graphs"}
    browser.wait(lambda: expected | {"kbert"} <= full_board.plugins())  # the projector looks for its files meanwhile
    browser.driver.set_window_size(1400, 900)
    try:
        open_tab(browser, full_board.url)
        browser.driver.switch_to.default_content()
        places = (
            "return Object.fromEntries([...document.querySelectorAll('.plugin-name')].map((one) => {"
            "const box = one.getBoundingClientRect(), at = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];"
            "return [one.textContent.trim().toLowerCase(), [at[0], one.contains(document.elementFromPoint(...at))]]}))"
        )
        browser.wait(lambda: browser.js(places)["kbert"][1])
        places = browser.js(places)
        for name in expected | {"kbert"} if every_tab_fits else {"kbert"}:
            middle, is_on_top = places[name]
            assert is_on_top and middle < 1400, name
    finally:
        browser.driver.set_window_size(1280, 900)
