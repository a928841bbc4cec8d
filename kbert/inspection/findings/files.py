"""What an inspection found → a directory of files: figures as JSON, pictures, the report."""

import pathlib
import re
from collections.abc import Mapping

import numpy as np

from kbert.files import check_directory_is_free, to_json, write_directory
from kbert.inspection.findings.inspection import Inspection
from kbert.inspection.findings.views import pictures, report_html

FIGURES, REPORT, PICTURES = "figures.json", "report.html", "pictures"


def check_output(directory, overwrite: bool = False) -> None:
    """Raises FileExistsError if `write_files` may not replace something; call it before long work."""
    check_directory_is_free(directory, (FIGURES, REPORT, PICTURES), overwrite)


def write_files(
    found: Inspection, directory, overwrite: bool = False, drawn: Mapping[str, np.ndarray] | None = None
) -> None:
    """Writes ``figures.json``, ``report.html`` and ``pictures/*.png``, atomically.

    `drawn` may hold `pictures(found)`, so that nothing is drawn twice.
    """
    check_output(directory, overwrite)
    write_directory(directory, lambda place: _write(found, place, pictures(found) if drawn is None else drawn))


def _write(found, place, drawn):
    (place / FIGURES).write_text(to_json(found.to_dict()), encoding="utf-8")
    (place / REPORT).write_text(report_html(found), encoding="utf-8")
    (place / PICTURES).mkdir()
    for name, pixels in drawn.items():
        write_png(place / PICTURES / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.png", pixels)


def write_png(path: pathlib.Path, pixels: np.ndarray) -> None:
    """Writes a picture, uint8 [height, width, 3]."""
    from PIL import Image

    Image.fromarray(pixels).save(path, "PNG", optimize=True)
