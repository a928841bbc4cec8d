"""Pictures of TensorBoard over the runs."""

import contextlib
import json
import pathlib
import shutil
import tempfile
import time
import urllib.parse

from screenshots.pictures import DEEP, Pictures

_RATES = {  # names of curves, and their logs
    "baseline": "quickstart/pretrained/logs/baseline",
    "rate 1e-3": "quickstart/pretrained/logs/train",
    "rate 2e-5": "rate-too-low/logs/train",
    "rate 5e-2": "rate-too-high/logs/train",
}
# Picture: log directory, or several under other names; what is shown of it by its own function; curves: tags and runs.
PICTURES = {
    "pretraining": ("tiny/logs", "mlm_loss|mlm_accuracy", "train|validation|baseline"),
    "pretraining_wrong": (_RATES, "mlm_loss|gradient_norm", ""),
    "finetuning": ("healthy/logs", "loss/loss|accuracy/accuracy", "train|validation|baseline"),
    "overfitting": ("overfitting/logs", "loss/loss|accuracy/accuracy", "train|validation|baseline"),
    "histograms": (
        "tiny/logs",
        "self_attention/entropy/encoder_block_1|weights/.*1/feed_forward/output/kernel",
        "train",
    ),
    "hparams": ("quickstart/finetuned",),
    "projector": ("quickstart/finetuned/pre-trained-0/logs",),
}
_SETTINGS = {"ignoreOutliers": False, "scalarSmoothing": 0, "timeSeriesSettingsPaneOpened": False}
_SETTINGS |= {"sideBarWidthInPercent": 8, "timeSeriesCardMinWidth": 470}
_COLUMNS = ["random_weights", "seed", "accuracy/accuracy", "accuracy/macro_f1", "loss/loss"]
_DRAWN = 6  # seconds; TensorBoard does not say when its charts are drawn


def make(pictures: Pictures, names) -> None:
    """Makes these pictures, each from a TensorBoard over its own directory."""
    from helpers.live_tensorboard import live_tensorboard

    for name in names:
        logs, *options = PICTURES[name]
        pictures.window(1300, 900)
        with _directory(pictures.runs, logs) as log_dir, live_tensorboard(log_dir) as board:
            browser = pictures.browser
            browser.driver.get(f"{board.url}/data/environment")  # any page of this host, for its settings
            browser.js("localStorage.setItem('_tb_global_settings', arguments[0])", json.dumps(_SETTINGS))
            _VIEWS.get(name, _time_series)(pictures, name, board.url, *options)


@contextlib.contextmanager
def _directory(runs, logs):
    """The log directory; of several copies under their names."""
    if isinstance(logs, str):
        yield runs / logs
        return
    with tempfile.TemporaryDirectory() as directory:
        for name, path in logs.items():
            shutil.copytree(runs / path, pathlib.Path(directory) / name)
        yield pathlib.Path(directory)


def _time_series(pictures, name, url, tags, runs):
    """The cards of some tags, in which every run is one curve; runs that would be left out have no checked box."""
    query = urllib.parse.urlencode({"tagFilter": tags, "runFilter": runs, "smoothing": 0})
    pictures.browser.driver.get(f"{url}/?{query}#timeseries")
    pictures.browser.wait(lambda: pictures.browser.all("card-view"))
    time.sleep(_DRAWN)
    pictures.shoot(name, "card-view")


def _hparams(pictures, name, url):
    """The table of runs, with the settings that differ and the scores."""
    browser = pictures.browser
    browser.driver.get(f"{url}/#hparams")
    time.sleep(_DRAWN)
    boxes = f"{DEEP} for (const box of deep('.hparam-checkbox, .metric-checkbox'))"
    browser.js(f"{boxes} if (box.checked !== arguments[0].includes(box.textContent.trim())) box.click()", _COLUMNS)
    time.sleep(_DRAWN)
    pictures.shoot(name, "tf-hparams-sessions-pane", 420)


def _projector(pictures, name, url):
    """The texts of the test set, coloured by their labels."""
    browser = pictures.browser
    browser.driver.get(f"{url}/#projector")
    for address in ("plugin_entry", "projector_binary"):  # a frame in a frame
        found = f"{DEEP} return deep('iframe[src*={address}]')[0]"
        browser.driver.switch_to.frame(browser.wait(lambda found=found: browser.js(found)))
    panel = f"{DEEP} const panel = deep('vz-projector-data-panel')[0];"
    browser.wait(lambda: browser.js(f"{panel} return panel?.tensorNames?.length"))
    points = f"{DEEP} return deep('vz-projector')[0]?.dataSet?.points.length"
    first = browser.wait(lambda: browser.js(points))
    browser.js(f"{panel} panel.selectedTensor = 'texts'")
    browser.wait(lambda: browser.js(points) not in (None, first))
    time.sleep(_DRAWN)
    browser.js(f"{panel} panel.selectedColorOptionName = 'label'")
    time.sleep(_DRAWN)
    browser.driver.switch_to.default_content()
    pictures.shoot(name)


_VIEWS = {"hparams": _hparams, "projector": _projector}
