"""What a picture consists of: a few shapes as plain data, drawn the same by the browser and by Pillow.

Places and sizes are in the view's own units. A color is `#rrggbb`, or one of the names in `palette.py`, which
stand for other colors on a dark page.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

#: a cell's color as one character: its index in the palette
CODES = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Rect(NamedTuple):
    """A box, perhaps with round corners."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    radius: float = 0.0


class Disc(NamedTuple):
    """A filled circle."""

    x: float
    y: float
    radius: float
    fill: str


class Line(NamedTuple):
    """Straight pieces through points: x, y, x, y, …"""

    points: tuple[float, ...]
    width: float
    color: str


class Trail(NamedTuple):
    """A line with round joints that fades from its first point to its last."""

    points: tuple[float, ...]
    width: float
    near: str
    far: str


class Label(NamedTuple):
    """A short text; `y` is the middle of the line, `x` its left, center or right."""

    x: float
    y: float
    text: str
    size: float
    fill: str
    align: str = "left"


class Cells(NamedTuple):
    """A grid of colored squares, row by row; `codes` has a character of `CODES` for each."""

    x: float
    y: float
    side: float
    columns: int
    palette: tuple[str, ...]
    codes: str


class Picture(NamedTuple):
    """An image file, PNG or JPEG, stretched over a box."""

    x: float
    y: float
    width: float
    height: float
    data: bytes


Shape = Rect | Disc | Line | Trail | Label | Cells | Picture
Scene = tuple[Shape, ...]


def scene_to_json(scene: Iterable[Shape]) -> list[list[Any]]:
    """A scene for JSON: each shape as its name and its fields in order."""
    return [[type(shape).__name__.lower(), *(_value_to_json(value) for value in shape)] for shape in scene]


def _value_to_json(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 2)
    if isinstance(value, tuple):
        return [_value_to_json(item) for item in value]
    if isinstance(value, bytes):
        return data_url(value)
    return value


def data_url(data: bytes) -> str:
    """An image file as a `data:` URL."""
    kind = "png" if data[:4] == b"\x89PNG" else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
