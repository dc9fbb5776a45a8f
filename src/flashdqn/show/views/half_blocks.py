"""Any image in a terminal: every character shows two pixels, one above the other."""

from __future__ import annotations

from PIL import Image
from rich.style import Style
from rich.text import Text


def draw_half_blocks(image: Image.Image, columns: int, rows: int = 40) -> Text:
    """At most so many characters wide and high."""
    width = max(1, min(columns, round(2 * rows * image.width / image.height)))
    height = max(2, 2 * round(width * image.height / image.width / 2))
    small = image.convert("RGB").resize((width, height), Image.Resampling.BOX)
    text = Text()
    for y in range(0, height, 2):
        if y:
            text.append("\n")
        for x in range(width):
            text.append("▀", Style(color=_pixel_to_hex(small, x, y), bgcolor=_pixel_to_hex(small, x, y + 1)))
    return text


def _pixel_to_hex(image: Image.Image, x: int, y: int) -> str:
    pixel = image.getpixel((x, y))
    assert isinstance(pixel, tuple)
    red, green, blue = (int(value) for value in pixel[:3])
    return f"#{red:02x}{green:02x}{blue:02x}"
