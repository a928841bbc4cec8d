"""Makes the pictures of docs/inspection.md, with Chromium (pip install -e ".[browser]"; Debian: chromium-driver).

    python docs/make_screenshots.py --runs runs

The runs that it shows are those of docs/inspection.md, whose commands stand there.
"""

import argparse
import base64
import pathlib
import sys
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/images"
WIDTH = 1000  # pixels
CURVES = {  # picture: tags, runs
    "pretraining": ("mlm_loss|mlm_accuracy", "quickstart/pretrained/logs/(train|validation|baseline)"),
    "pretraining_wrong": ("mlm_loss|gradient_norm", "(rate-too-.*|pretrained)/logs/(train|baseline)"),
    "finetuning": ("loss/loss|accuracy/accuracy", "healthy/logs/(train|validation|baseline)"),
    "overfitting": ("loss/loss|accuracy/accuracy", "overfitting/logs/(train|validation|baseline)"),
}
TEXT = "Returns the sum of the array elements over the given axis."
TEXT_PAIR = "The default is to sum all of the elements of the input array."
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # the browser of the tests


def save(browser, name, css, height=10_000):
    """A picture of a part of the page, from its top, at most `height` pixels high."""
    browser.driver.set_window_size(WIDTH, 3000)  # all of it, without scrolling
    box = "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
    x, y, width, full = browser.js(f"{box} return [box.x + scrollX, box.y + scrollY, box.width, box.height]", css)
    clip = {"x": x - 8, "y": max(0, y - 8), "width": width + 16, "height": min(full + 16, height), "scale": 1}
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    (IMAGES / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
    browser.driver.set_window_size(WIDTH, 900)


def playground(browser, model):
    """A picture of each view of pre-training and of the encoder."""
    from helpers.playground_server import serving

    with serving([model]) as address:
        browser.open(address)
        browser.type("[name=text]", TEXT)
        browser.type("[name=text_pair]", TEXT_PAIR)
        browser.one("[name=chosen_only]").click()
        save(browser, "masking", "body", 1000)
        browser.view("next_sentence")
        save(browser, "next_sentence", ".column", 620)
        browser.view("input_representation")
        browser.all("button.token")[2].click()
        browser.wait(lambda: len(browser.all(".strip")) == 5)
        save(browser, "input_representation", ".column")
        browser.view("attention")
        browser.all(".query")[4].click()
        browser.js("document.documentElement.dataset.theme = 'dark'")
        save(browser, "attention", ".column", 620)
        browser.js("document.documentElement.dataset.theme = 'light'")


def tensorboard(browser, runs):
    """Pictures of TensorBoard's Time Series tab, in which every run is one curve."""
    from tensorboard import default, program

    board = program.TensorBoard(plugins=default.get_plugins())
    board.configure(logdir=str(runs), port=0, host="127.0.0.1", load_fast="false")
    url = board.launch()
    for name, (tags, shown) in CURVES.items():
        query = urllib.parse.urlencode({"tagFilter": tags, "runFilter": shown, "smoothing": 0})
        browser.driver.get("about:blank")
        browser.driver.set_window_size(1300, 800)
        browser.driver.get(f"{url}?{query}#timeseries")
        time.sleep(8)  # TensorBoard does not say when its charts are drawn
        for close in browser.all("[aria-label='Close side pane']"):  # it stays closed
            close.click()
            time.sleep(3)
        browser.driver.save_screenshot(str(IMAGES / f"{name}.png"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", default=ROOT / "runs", type=pathlib.Path, metavar="DIR", help="what the commands made"
    )
    runs = parser.parse_args().runs
    from helpers.browser import start_browser

    IMAGES.mkdir(exist_ok=True)
    browser = start_browser()
    try:
        playground(browser, runs / "quickstart/pretrained")
        tensorboard(browser, runs)
    finally:
        browser.driver.quit()
    for path in sorted(IMAGES.glob("*.png")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
