"""Drawing of charts as pictures, with Pillow, which TensorBoard brings along."""

import numpy as np

INK, FAINT, PAPER = (32, 36, 40), (176, 182, 188), (255, 255, 255)
# Okabe and Ito's colours, which colour-blind people tell apart; charts also differ in marks or places.
BLUE, ORANGE, GREEN = (0, 114, 178), (213, 94, 0), (0, 158, 115)
_SCALE, _SMOOTHING = 2, 2  # pixels of a point on screens of high resolution; drawn larger, as Pillow's edges are rough


class Canvas:
    """A white sheet to draw on; positions and sizes are in points from the upper left corner.

    It is white in TensorBoard's dark theme as well, so that what is on it can be read in both.

    Example::

        canvas = Canvas(200, 100, "a line")
        canvas.line([(10, 90), (190, 40)], BLUE, width=2)
        canvas.pixels()  # uint8 [200, 400, 3]
    """

    def __init__(self, width, height, title=""):
        from PIL import Image, ImageDraw

        factor = _SCALE * _SMOOTHING
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * factor, height * factor), PAPER)
        self._draw = ImageDraw.Draw(self._image, "RGBA")
        self._fonts = {}
        if title:
            self.text(12, 18, title, size=15)

    def text(self, x, y, text, *, size=12, anchor="lm", colour=INK, turned=False):
        """Writes a line.

        Args:
            x, y: of the anchor.
            text: str; characters other than ASCII's, which the font lacks, become "?".
            size: of the font.
            anchor: two of Pillow's letters: left, middle, right; ascender, middle, descender.
            colour: (red, green, blue).
            turned: bool, whether it is read from bottom to top; then (x, y) is its middle.
        """
        text = printable(text)
        if not turned:
            self._draw.text(self._at(x, y), text, colour, self._font(size), anchor)
            return
        from PIL import Image, ImageDraw

        left, top, right, bottom = self._font(size).getbbox(text)
        mask = Image.new("L", (max(1, right - left), max(1, bottom - top)))
        ImageDraw.Draw(mask).text((-left, -top), text, 255, self._font(size))
        mask = mask.rotate(90, expand=True)
        (x, y), (w, h) = self._at(x, y), mask.size
        self._image.paste(colour, (int(x - w / 2), int(y - h / 2)), mask)

    def text_width(self, text, size=12) -> float:
        """Points that a line takes."""
        return self._font(size).getlength(printable(text)) / (_SCALE * _SMOOTHING)

    def rectangle(self, left, top, right, bottom, *, fill=None, outline=None):
        """Fills or outlines a rectangle; a colour's fourth number is its opacity, up to 255."""
        box = [*self._at(left, top), *self._at(right, bottom)]
        self._draw.rectangle(box, fill, outline, _SCALE * _SMOOTHING)

    def line(self, points, colour=INK, *, width=1, dash=0):
        """Draws a line through points; with `dash` from the first to the second, in strokes of so many points."""
        thick = round(width * _SCALE * _SMOOTHING)
        if not dash:
            self._draw.line([self._at(*point) for point in points], colour, thick, joint="curve")
            return
        start, end = (np.asarray(point, "float64") for point in points)
        strokes = max(1, int(np.linalg.norm(end - start) / dash))
        for n in range(0, strokes, 2):
            ends = (start + (end - start) * min(1, share / strokes) for share in (n, n + 1))
            self._draw.line([self._at(*point) for point in ends], colour, thick)

    def disc(self, x, y, radius, fill):
        """Draws a filled circle."""
        self._draw.ellipse([*self._at(x - radius, y - radius), *self._at(x + radius, y + radius)], fill)

    def pixels(self) -> np.ndarray:
        """The picture, uint8 [pixels of the height, pixels of the width, 3], two pixels a point."""
        return np.array(self._image.reduce(_SMOOTHING))

    def _at(self, x, y):
        return x * _SCALE * _SMOOTHING, y * _SCALE * _SMOOTHING

    def _font(self, size):
        if size not in self._fonts:
            from PIL import ImageFont

            self._fonts[size] = ImageFont.load_default(size * _SCALE * _SMOOTHING)
        return self._fonts[size]


def printable(text: str) -> str:
    """Text in the characters that the font has: "?" for others."""
    return "".join(char if " " <= char <= "~" else "?" for char in text)


def picture_names(names) -> list[str]:
    """Names for a picture, each different: those with characters that the font lacks become their numbers, "#3"."""
    return [name if name and name == printable(name) else f"#{n}" for n, name in enumerate(names)]


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, at most about `most`, at equal distances of 1, 2 or 5 times a power of 10.

    Example::

        nice_ticks(0.3, 5.1)  # [1, 2, 3, 4, 5]
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** np.floor(np.log10(rough))
    distance = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * (1 - 1e-9))
    first, last = int(np.ceil(low / distance - 1e-9)), int(np.floor(high / distance + 1e-9))
    return [float(f"{n * distance:.10g}") for n in range(first, last + 1)]
