"""Makes the pictures of docs/inspection.md, with Chromium (pip install -e ".[browser]"; Debian: chromium-driver).

python recipes/quickstart.py
python docs/make_screenshots.py --quickstart runs/quickstart
"""

import argparse
import base64
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/images"
WIDTH = 1000  # pixels
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


def tensorboard(browser, log_dir, name):
    """A picture of the Time Series tab of some runs."""
    from tensorboard import default, program

    board = program.TensorBoard(plugins=default.get_plugins())
    board.configure(logdir=str(log_dir), port=0, host="127.0.0.1", load_fast="false")
    browser.driver.get(f"{board.launch()}#timeseries")
    browser.driver.set_window_size(1300, 1000)
    time.sleep(10)  # TensorBoard does not say when its charts are drawn
    save(browser, name, "body", 1000)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quickstart", required=True, type=pathlib.Path, metavar="DIR", help="output of quickstart.py")
    directory = parser.parse_args().quickstart
    from helpers.browser import start_browser

    IMAGES.mkdir(exist_ok=True)
    browser = start_browser()
    try:
        playground(browser, directory / "pretrained")
        tensorboard(browser, directory / "pretrained/logs", "pretraining")
        tensorboard(browser, directory / "finetuned/pre-trained-0/logs", "finetuning")
    finally:
        browser.driver.quit()
    for path in sorted(IMAGES.glob("*.png")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
