"""Scenes as images, by Pillow: for PNG, GIF and terminals. `show/web/draw.js` draws the same in a browser."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from rich.style import Style
from rich.text import Text

from flashdqn.core.drawing.palette import LIGHT, blend_colors, color_to_rgb
from flashdqn.core.drawing.scene import CODES, Cells, Disc, Label, Line, Picture, Rect, Shape, Trail

SMOOTH = 3  # Pillow draws hard edges: draw larger, then shrink

Place = tuple[float, float]


def paint_scene(
    scene: Iterable[Shape], size: Place, width: int, palette: dict[str, str] = LIGHT, ground: str = "#ffffff"
) -> Image.Image:
    """Draw a scene as an image `width` pixels wide; the height follows from the scene's proportions."""
    height = max(1, round(width * size[1] / size[0]))
    brush = Brush(width * SMOOTH, height * SMOOTH, width * SMOOTH / size[0], palette, ground)
    for shape in scene:
        brush.draw(shape)
    return brush.image.resize((width, height), Image.Resampling.BOX)


def paint_pixels(scene: Iterable[Shape], size: Place, width: int) -> npt.NDArray[np.uint8]:
    """Draw a scene as an array, [height, width, 3]."""
    return np.asarray(paint_scene(scene, size, width))


class Brush:
    """Draws one shape after another on an enlarged image."""

    def __init__(self, width: int, height: int, scale: float, palette: dict[str, str], ground: str) -> None:
        self.image = Image.new("RGB", (width, height), color_to_rgb(ground, palette))
        self.on, self.scale, self.palette = ImageDraw.Draw(self.image), scale, palette

    def draw(self, shape: Shape) -> None:
        """Draw any shape."""
        match shape:
            case Rect():
                self.rect(shape)
            case Disc():
                self._disc((shape.x, shape.y), shape.radius, color_to_rgb(shape.fill, self.palette))
            case Line():
                self.on.line(
                    self._points(shape.points),
                    color_to_rgb(shape.color, self.palette),
                    self._width(shape.width),
                )
            case Trail():
                self.trail(shape)
            case Label():
                self.label(shape)
            case Cells():
                self.cells(shape)
            case Picture():
                self.picture(shape)

    def rect(self, shape: Rect) -> None:
        """Draw a box; Pillow's corners are inclusive."""
        if shape.width <= 0 or shape.height <= 0:
            return
        box = self._box(shape.x, shape.y, shape.width, shape.height)
        self.on.rounded_rectangle(box, shape.radius * self.scale, color_to_rgb(shape.fill, self.palette))

    def trail(self, shape: Trail) -> None:
        """Draw a trail from its far end to its near end, which then lies on top."""
        near, far = color_to_rgb(shape.near, self.palette), color_to_rgb(shape.far, self.palette)
        places = list(zip(shape.points[::2], shape.points[1::2], strict=True))
        last = max(1, len(places) - 1)
        for k in reversed(range(len(places))):
            shade = blend_colors(near, far, k / last)
            if k < len(places) - 1:
                both = self._points((*places[k], *places[k + 1]))
                self.on.line(both, shade, self._width(shape.width))
            self._disc(places[k], shape.width / 2, shade)

    def label(self, shape: Label) -> None:
        """Draw one line of text."""
        anchor = {"left": "lm", "center": "mm", "right": "rm"}[shape.align]
        place = (shape.x * self.scale, shape.y * self.scale)
        self.on.text(
            place,
            shape.text,
            color_to_rgb(shape.fill, self.palette),
            load_font(shape.size * self.scale),
            anchor,
        )

    def cells(self, shape: Cells) -> None:
        """Draw a grid of cells."""
        colors = [color_to_rgb(name, self.palette) for name in shape.palette]
        for k, code in enumerate(shape.codes):
            row, column = divmod(k, shape.columns)
            box = self._box(shape.x + column * shape.side, shape.y + row * shape.side, shape.side, shape.side)
            self.on.rectangle(box, colors[CODES.index(code)])

    def picture(self, shape: Picture) -> None:
        """Draw an image file over a box."""
        left, top, right, bottom = self._box(shape.x, shape.y, shape.width, shape.height)
        inside = Image.open(io.BytesIO(shape.data)).convert("RGB")
        size = (max(1, round(right - left) + 1), max(1, round(bottom - top) + 1))
        self.image.paste(inside.resize(size, Image.Resampling.BICUBIC), (round(left), round(top)))

    def _disc(self, center: Place, radius: float, fill: tuple[int, int, int]) -> None:
        x, y, r = center[0] * self.scale, center[1] * self.scale, radius * self.scale
        self.on.ellipse((x - r, y - r, x + r, y + r), fill)

    def _box(self, x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
        s = self.scale
        return x * s, y * s, max(x * s, (x + width) * s - 1), max(y * s, (y + height) * s - 1)

    def _points(self, points: Iterable[float]) -> list[float]:
        return [value * self.scale for value in points]

    def _width(self, width: float) -> int:
        return max(1, round(width * self.scale))


@functools.lru_cache(maxsize=32)
def load_font(size: float) -> Any:
    """Pillow's own typeface, which every machine has."""
    return ImageFont.load_default(max(1.0, size))


def encode_image(array: npt.NDArray[np.uint8], width: int) -> bytes:
    """A picture of a game as a small file: a PNG if it has few colors, else a JPEG."""
    image = Image.fromarray(array)
    if image.width > width:
        image = image.resize((width, max(1, round(image.height * width / image.width))), Image.Resampling.BOX)
    out = io.BytesIO()
    if image.getcolors(4096) is not None:
        # an octree is four times as fast as a median cut, and a page waits for this
        few = image.quantize(64, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.save(out, "PNG", compress_level=6)
    else:
        image.save(out, "JPEG", quality=80)
    return out.getvalue()


def draw_half_blocks(image: Image.Image, columns: int, rows: int = 40) -> Text:
    """An image in a terminal, at most `columns` wide and `rows` high: a character shows two pixels, one above the
    other."""
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
