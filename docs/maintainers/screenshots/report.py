"""A picture of the report of `kbert.inspect`."""

from screenshots.pictures import Pictures

PICTURES = {"report": "quickstart/inspection/report.html"}
_HEIGHT = 1500  # of the page's start


def make(pictures: Pictures, names) -> None:
    """Makes these pictures, from files."""
    pictures.window(1000)
    for name in names:
        pictures.browser.driver.get((pictures.runs / PICTURES[name]).resolve().as_uri())
        pictures.shoot(name, "body", _HEIGHT)
