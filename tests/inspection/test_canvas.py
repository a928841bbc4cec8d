"""Charts as pictures: what is drawn is where it should be."""

import numpy as np
import pytest

from kbert.inspection.canvas import BLUE, INK, ORANGE, Canvas, nice_ticks, picture_names, printable


def box(pixels, colour):
    """(left, top, right, bottom) of a colour, in points."""
    rows, columns = np.nonzero((np.abs(pixels.astype(int) - colour) < 8).all(axis=-1))
    return columns.min() / 2, rows.min() / 2, (columns.max() + 1) / 2, (rows.max() + 1) / 2


def test_shapes_have_their_place():
    canvas = Canvas(100, 60)
    canvas.rectangle(10, 20, 30, 40, fill=BLUE)
    canvas.disc(70, 30, 10, ORANGE)
    pixels = canvas.pixels()
    assert pixels.shape == (120, 200, 3) and pixels.dtype == np.uint8
    np.testing.assert_allclose(box(pixels, BLUE), [10, 20, 30, 40], atol=0.6)
    np.testing.assert_allclose(box(pixels, ORANGE), [60, 20, 80, 40], atol=1)
    assert (pixels[:10] == 255).all()


def test_lines_and_dashes():
    whole, dashed = Canvas(100, 20), Canvas(100, 20)
    whole.line([(0, 10), (100, 10)], INK, width=4)
    dashed.line([(0, 10), (100, 10)], INK, width=4, dash=10)
    amounts = [np.mean(canvas.pixels()[20] < 128) for canvas in (whole, dashed)]
    assert amounts[0] == 1 and 0.4 < amounts[1] < 0.6


def test_text_has_its_width_and_turns():
    flat, turned = Canvas(200, 200), Canvas(200, 200)
    flat.text(20, 100, "some words")
    turned.text(100, 100, "some words", turned=True)
    assert flat.text_width("some words") > 40
    left, top, right, bottom = box(flat.pixels(), INK)
    assert right - left == pytest.approx(flat.text_width("some words"), abs=3) and left == pytest.approx(20, abs=2)
    (a, b, c, d), wide, high = box(turned.pixels(), INK), right - left, bottom - top
    assert (c - a, d - b) == pytest.approx((high, wide), abs=2)
    assert ((a + c) / 2, (b + d) / 2) == pytest.approx((100, 100), abs=3)


def test_names_that_the_font_lacks():
    assert printable("aé中\n") == "a???"
    assert picture_names(["neg", "très bon", "", "中"]) == ["neg", "#1", "#2", "#3"]


@pytest.mark.parametrize("low, high", [(0, 1), (-3.2, 4.7), (0.3, 5.1), (1e-5, 3e-5), (0, 12345), (-1, -0.2)])
def test_ticks_are_round_and_inside(low, high):
    ticks = nice_ticks(low, high)
    assert 2 <= len(ticks) <= 8 and low <= ticks[0] and ticks[-1] <= high
    distances = np.diff(ticks)
    np.testing.assert_allclose(distances, distances[0])
    assert float(f"{distances[0]:.6e}"[0]) in (1, 2, 5)


def test_ticks_of_one_value():
    assert nice_ticks(2.0, 2.0) == [2.0]
