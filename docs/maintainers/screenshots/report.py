"""A picture of the report of `kbert.inspect`, of a model of saved_models."""

import pathlib
import tempfile

from screenshots.pictures import ROOT, Pictures

PICTURES = {"report": "A charming film, although the second half is far too long."}
_HEIGHT = 1500  # of the page's start


def make(pictures: Pictures, names) -> None:
    """Makes these pictures, each from the inspection of a text."""
    import kbert

    pictures.window(1000)
    for name in names:
        with tempfile.TemporaryDirectory() as directory:
            kbert.inspect(ROOT / "saved_models/kbert-mini-sentiment", [PICTURES[name]], directory=directory)
            pictures.browser.driver.get((pathlib.Path(directory) / "report.html").as_uri())
            pictures.shoot(name, "body", _HEIGHT)
