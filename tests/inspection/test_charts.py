"""Charts: names in any script, and colours where the numbers say."""

import warnings

import numpy as np
import pytest
from helpers.picture_pixels import pixels_of

from kbert.inspection.charts import BLUE, ORANGE, confusion_picture, heat_map, layer_chart, picture, short


def test_a_picture_has_two_pixels_a_point_and_a_white_margin():
    pixels = picture(100, 60, "", lambda figure: figure.subplots().bar([0], [1], color=BLUE))
    assert pixels.shape == (120, 200, 3) and pixels.dtype == np.uint8
    assert (pixels[:4] == 255).all() and len(pixels_of(pixels, BLUE)[0]) > 3000


@pytest.mark.parametrize("name", ["très", "naïve", "«", "“", "Привет", "ελ", "$", "$x$", "\\frac", "_", "'", '"'])
def test_names_are_drawn_as_they_are(name):
    """Each differs from "?" and from the box of a character without a glyph."""
    drawn, unknown, box = (
        confusion_picture(np.eye(2), [one, "other"], "") for one in (name, "?" * len(name), "\uffff" * len(name))
    )
    for other in (unknown, box):
        assert drawn.shape != other.shape or (drawn != other).any()


def test_a_character_that_no_font_has_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        confusion_picture(np.eye(2), ["\ue000", "b"], "\ue000")


def test_long_names_are_cut():
    assert short("x" * 30) == "x" * 23 + "…" and short("a \n b") == "a b"


def test_higher_cells_are_darker():
    pixels = heat_map([[0.0, 0.5], [0.25, 1.0]], ["a", "b"], ["c", "d"], "", high=1.0)
    areas = {n: len(pixels_of(pixels, colour)[0]) for n, colour in enumerate(("#ffffff", "#8088bc", BLUE))}
    assert areas[2] > 1000
    rows, columns = pixels_of(pixels, BLUE)
    assert rows.min() > pixels.shape[0] / 2 and columns.min() > pixels.shape[1] / 2  # the last row and column


def test_lines_of_a_layer_chart():
    pixels = layer_chart({"accuracy": [0.2, 0.9], "majority": [0.5, 0.5]}, "probes", dashed=["majority"])
    blue, orange = pixels_of(pixels[:, :900], BLUE), pixels_of(pixels[:, :900], ORANGE)  # without the legend
    assert np.ptp(blue[0]) > 300 and np.ptp(orange[0]) < 30
    assert blue[0][blue[1].argmax()] < blue[0][blue[1].argmin()]  # it rises to the right
