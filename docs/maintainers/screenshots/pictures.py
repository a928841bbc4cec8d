"""Pictures of pages, small in bytes."""

import base64
import io
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
IMAGES = ROOT / "docs/images"
# All elements of a selector, also within the roots of other elements.
DEEP = """
const deep = (css, root = document) => [...root.querySelectorAll("*")].flatMap((one) => [
  ...(one.matches(css) ? [one] : []), ...(one.shadowRoot ? deep(css, one.shadowRoot) : [])]);
"""
_COLOURS = 128  # of a picture's palette
_MARGIN = 8  # pixels around what is shown


class Pictures:
    """What all kinds of pictures need.

    Args:
        browser: of tests/helpers/browser.py.
        runs: directory of the runs.
        encoder: source of the pre-trained encoder.
    """

    def __init__(self, browser, runs: pathlib.Path, encoder: str):
        self.browser, self.runs, self.encoder = browser, runs, encoder
        IMAGES.mkdir(exist_ok=True)

    def window(self, width: int, height: int = 900) -> None:
        """Sets the size of the window, in pixels of the page."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def shoot(self, name: str, css: str = "body", height: int = 10_000) -> None:
        """Writes a picture of all elements of a selector, from their top, at most `height` pixels high."""
        boxes = self.browser.js(
            f"{DEEP} return deep(arguments[0]).map((one) => one.getBoundingClientRect())"
            ".filter((one) => one.width && one.height)"
            ".map((one) => [one.left + scrollX, one.top + scrollY, one.right + scrollX, one.bottom + scrollY])",
            css,
        )
        left, top = (max(0, min(box[n] for box in boxes) - _MARGIN) for n in (0, 1))
        right, bottom = max(box[2] for box in boxes) + _MARGIN, max(box[3] for box in boxes)
        clip = {"x": left, "y": top, "width": right - left, "height": min(bottom - top, height), "scale": 1}
        options = {"clip": clip, "captureBeyondViewport": True}
        shot = self.browser.driver.execute_cdp_cmd("Page.captureScreenshot", options)
        write(name, base64.b64decode(shot["data"]))


def write(name: str, png: bytes) -> None:
    """Writes a picture with a palette of its own colours."""
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB")
    few = image.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(IMAGES / f"{name}.png", optimize=True)
