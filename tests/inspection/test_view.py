"""Texts, pictures and numbers in an event file."""

import numpy as np
from helpers.event_values import event_values

from kbert.inspection.view import View, ViewWriter


def test_views_are_written(tmp_path):
    picture = np.arange(4 * 6 * 3, dtype="uint8").reshape(4, 6, 3)
    writer = ViewWriter(tmp_path, "examples")
    writer.close()
    assert not list(tmp_path.iterdir())  # nothing was written
    writer.write(3, [View("a/text", "**x**"), View("a/picture", picture, "a *picture*"), View("a/number", 0.25)])
    writer.write(7, [View("a/number", 0.5)])
    files = list(tmp_path.rglob("*tfevents*"))
    assert len(files) == 1 and files[0].parent == tmp_path / "examples"
    found = event_values(tmp_path)
    assert [one[:3] for one in found] == [
        (3, "a/text", "text"),
        (3, "a/picture", "images"),
        (3, "a/number", "scalars"),
        (7, "a/number", "scalars"),
    ]
    assert found[0][3] == "**x**" and found[2][3] == 0.25 and found[3][3] == 0.5
    np.testing.assert_array_equal(found[1][3], picture)
    writer.close()
