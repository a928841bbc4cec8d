"""The report of `kbert.inspect` in a real browser, from a file: its script runs, alone, and shows texts as text."""

import numpy as np
import pytest
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert

pytestmark = pytest.mark.parity  # .ci/run has a browser and fails if these were skipped

MARKUP = "<img src=x onerror=alert(1)></script><script>window.broken = 1</script>"
SENTENCES = [["the", "film", "is", "good"], ["a", "bad", "film", "!"], ["paris", "was", "never", "<b>"]] * 3
LABELS = [["D", "N", "V", "A"], ["D", "A", "N", "<i>"], ["N", "V", "R", "N"]] * 3


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / MARKUP.replace("/", "")[:20]
    model = randomise(kbert.BertClassifier(tiny_config(), num_labels=2), scale=0.2)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["<b>bad", "<i>good"])
    data = {"words": SENTENCES, "<u>pos": LABELS}
    found = kbert.inspect(
        pipeline, ["the film is good", MARKUP], data, compare=pipeline, name=MARKUP, directory=path, max_words=100
    )
    return path / "report.html", found


def test_the_report(browser, report):
    path, found = report
    browser.driver.get(path.as_uri())
    assert browser.js("return document.querySelector('h1').textContent") == MARKUP
    headings = browser.js("return [...document.querySelectorAll('h2')].map((one) => one.textContent)")
    assert headings == [
        "In short",
        "Which tokens decided",
        "Attention",
        "Heads",
        "Layer probes",
        "Similarity of layers",
    ]
    assert browser.js("return document.querySelectorAll('.grid button').length") == 2 * 3

    browser.js("document.querySelectorAll('.grid button')[4].click()")  # layer 2, head 2
    assert (
        browser.js("return document.querySelector('.grid [aria-pressed=true]').getAttribute('aria-label')")
        == "layer 2, head 2"
    )
    browser.js("document.querySelectorAll('.map td')[1 + 6 + 2].focus()")  # an empty corner, the first row, two more
    value = found.texts[0].attention[1, 1, 1, 2]
    assert browser.js("return document.querySelector('.readout').textContent") == f"the → film: {100 * value:.1f}%"
    browser.js("window.choice = document.querySelectorAll('select')[0]; choice.value = 1")
    browser.js("choice.dispatchEvent(new Event('change'))")
    rows = browser.js("return [...document.querySelectorAll('.map tbody th')].map((one) => one.textContent)")
    assert rows == found.texts[1].tokens

    text = browser.js("return document.querySelector('main').textContent")
    norm = np.linalg.norm(found.texts[1].hidden_states[2, 1])
    assert "length of each token's hidden state" in text and f"{norm:.2f}" in text
    for shown in (found.attributions[0].target, found.attributions[1].target, "<u>pos"):
        assert shown in text
    assert browser.js("return document.querySelectorAll('main img, main b, main i, main u').length") == 0
    assert browser.js("return window.broken === undefined")
    summary = browser.texts(".summary li")
    for line, one in zip(summary, found.attributions, strict=False):
        strongest = max(range(len(one.tokens)), key=lambda n, one=one: abs(one.attributions[n]))
        assert f"above all {one.tokens[strongest]} (" in line and one.target in line
    probe = found.probes["<u>pos"]
    best = f"{_layer(probe.best_layer)}: {probe.accuracy[probe.best_layer]:.1%} ("
    assert [line for line in summary if line.startswith(f"<u>pos can be read best off {best}")]
    assert f"1.00 ({_layer(2)})" in summary[-1]
    browser.js("document.querySelector('button').click()")  # dark / light
    assert browser.js("return document.documentElement.dataset.theme") in ("dark", "light")
    assert browser.console() == [] and all(url.startswith("file:") for _, url, _ in browser.requests())


def _layer(number):
    return f"layer {number}" if number else "the embeddings"


def test_it_fits_the_window(browser, report):
    for width in (360, 1200):
        with browser.emulating(width=width):
            browser.driver.get(report[0].as_uri())
            wide = browser.js("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide[0] <= wide[1] + 1, width
