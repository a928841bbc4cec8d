"""Pictures of TensorBoard over the runs."""

import json
import time
import urllib.parse

from screenshots.pictures import Pictures

# Picture: log directory, what is shown of it by its own function; curves: tags and runs.
PICTURES = {
    "pretraining": ("tiny/logs", "mlm_loss|mlm_accuracy", "train|validation|baseline"),
    "pretraining_wrong": (".", "mlm_loss|gradient_norm", "(rate-too-.*|quickstart/pretrained)/logs/(train|baseline)"),
    "finetuning": ("healthy/logs", "loss/loss|accuracy/accuracy", "train|validation|baseline"),
    "overfitting": ("overfitting/logs", "loss/loss|accuracy/accuracy", "train|validation|baseline"),
    "histograms": ("tiny/logs", "self_attention/entropy|weights/.*1/feed_forward/output/kernel", "train"),
    "hparams": ("quickstart/finetuned",),
    "projector": ("quickstart/finetuned/pre-trained-0/logs",),
    "tensorboard_tab": ("quickstart/pretrained",),
}
_SETTINGS = {"ignoreOutliers": False, "scalarSmoothing": 0, "timeSeriesSettingsPaneOpened": False}
_SETTINGS |= {"sideBarWidthInPercent": 8, "timeSeriesCardMinWidth": 470}
_DRAWN = 6  # seconds; TensorBoard does not say when its charts are drawn


def make(pictures: Pictures, names) -> None:
    """Makes these pictures, each from a TensorBoard over its own directory."""
    from helpers.live_tensorboard import live_tensorboard

    from kbert.inspection.playground.plugin import PlaygroundLoader

    for name in names:
        log_dir, *options = PICTURES[name]
        if not (pictures.runs / log_dir).is_dir():
            print(f"{name}: not made, as there is no {pictures.runs / log_dir}")
            continue
        pictures.window(1300, 900)
        with live_tensorboard(pictures.runs / log_dir, [PlaygroundLoader]) as board:
            browser = pictures.browser
            browser.driver.get(f"{board.url}/data/environment")  # any page of this host, for its settings
            browser.js("localStorage.setItem('_tb_global_settings', arguments[0])", json.dumps(_SETTINGS))
            _VIEWS.get(name, _time_series)(pictures, name, board.url, *options)


def _time_series(pictures, name, url, tags, runs):
    """The cards of some tags, in which every run is one curve; runs that would be left out have no checked box."""
    query = urllib.parse.urlencode({"tagFilter": tags, "runFilter": runs, "smoothing": 0})
    pictures.browser.driver.get(f"{url}/?{query}#timeseries")
    pictures.browser.wait(lambda: pictures.browser.all("card-view"))
    time.sleep(_DRAWN)
    pictures.shoot(name, "card-view")


def _hparams(pictures, name, url):
    pictures.browser.driver.get(f"{url}/#hparams")
    time.sleep(_DRAWN)
    pictures.shoot(name)


def _projector(pictures, name, url):
    """The texts of the test set, coloured by their labels."""
    browser = pictures.browser
    browser.driver.get(f"{url}/#projector")
    browser.driver.switch_to.frame(browser.wait(lambda: browser.js("return document.querySelector('iframe')")))
    time.sleep(_DRAWN)
    browser.js(f"{_DEEP} deep('vz-projector-data-panel').selectedTensor = 'texts'")
    time.sleep(_DRAWN)
    browser.js(f"{_DEEP} deep('vz-projector-data-panel').selectedColorOptionName = 'label'")
    time.sleep(_DRAWN)
    browser.driver.switch_to.default_content()
    pictures.shoot(name)


def _tab(pictures, name, url):
    browser = pictures.browser
    browser.driver.get(f"{url}/#kbert")
    frame = browser.wait(lambda: browser.js("return document.querySelector('iframe[src*=plugin_entry]')"))
    browser.driver.switch_to.frame(frame)
    browser.wait(lambda: browser.js("return document.documentElement.dataset.ready === 'yes'"))
    browser.settle()
    browser.driver.switch_to.default_content()
    pictures.shoot(name)


# The first element of a selector, also within the roots of other elements.
_DEEP = """
const deep = (css, root = document) => {
  const found = root.querySelector(css);
  if (found) return found;
  for (const one of root.querySelectorAll("*")) {
    const inside = one.shadowRoot && deep(css, one.shadowRoot);
    if (inside) return inside;
  }
};
"""
_VIEWS = {"hparams": _hparams, "projector": _projector, "tensorboard_tab": _tab}
