"""Maps as pixels: the ground with its hills, the chance to burn, and the breaks in their order."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.pictures import FUELS

Pixels = NDArray[np.uint8]  # [rows, columns, 3]

#: The most pixels of a side; larger maps are made smaller.
MOST_PIXELS = 1000
#: The color of what cannot burn, in maps of chances.
UNBURNABLE = (140, 153, 166)
#: Color maps of chances and of the order of breaks, as in pictures.py.
CHANCE_COLORS, ORDER_COLORS = "inferno", "plasma"
#: The light comes from the north-west, at this height in degrees.
SUN_FROM, SUN_HEIGHT = 315.0, 45.0


def choose_shrink(shape: tuple[int, int]) -> int:
    """How many cells of a side share one pixel."""
    return max(1, -(-max(shape) // MOST_PIXELS))


def paint_ground(landscape: Landscape, shrink: int = 1) -> Pixels:
    """The fuels in groups, lighter and darker by how the hills lie to the sun."""
    from matplotlib.colors import to_rgb

    cut = (slice(None, None, shrink), slice(None, None, shrink))
    group = np.searchsorted([until for until, _, _ in FUELS], landscape.fuel_model[cut])
    colors = np.array([to_rgb(color) for _, _, color in FUELS])[group]
    light = compute_light(landscape.slope[cut], landscape.aspect[cut])
    return np.asarray(np.clip(colors * (0.45 + 0.75 * light[..., None]), 0, 1) * 255, dtype=np.uint8)


def compute_light(slope: NDArray[Any], aspect: NDArray[Any]) -> NDArray[np.float64]:
    """The cosine between the ground's normal and the sun, 0 … 1 (Horn 1981)."""
    steep, facing = np.radians(slope, dtype=np.float64), np.radians(aspect - SUN_FROM, dtype=np.float64)
    height = np.radians(SUN_HEIGHT)
    light = np.sin(height) * np.cos(steep) + np.cos(height) * np.sin(steep) * np.cos(facing)
    return np.asarray(np.clip(light, 0.0, 1.0))


def paint_chance(chance: NDArray[Any], landscape: Landscape, top: float, shrink: int = 1) -> Pixels:
    """The chance to burn from 0 to `top`; gray where nothing burns."""
    from matplotlib import colormaps

    shares = shrink_blocks(np.asarray(chance, dtype=np.float64), shrink, np.mean)
    painted = np.asarray(colormaps[CHANCE_COLORS](np.clip(shares / top, 0, 1))[..., :3] * 255, dtype=np.uint8)
    dead = ~landscape.burnable[::shrink, ::shrink] & (shares == 0)
    painted[dead] = UNBURNABLE
    return painted


def paint_breaks(landscape: Landscape, order: NDArray[np.int64], shrink: int = 1) -> Pixels:
    """The ground, and on it the breaks from the first (dark) to the last (light)."""
    from matplotlib import colormaps

    ground = paint_ground(landscape, shrink)
    places = np.zeros(landscape.fuel_model.size, dtype=np.int64)
    places[order] = np.arange(1, len(order) + 1)
    drawn = shrink_blocks(places.reshape(landscape.shape), shrink, np.max)
    shares = (drawn[drawn > 0] - 1) / max(1, len(order) - 1)
    ground[drawn > 0] = np.asarray(colormaps[ORDER_COLORS](shares)[:, :3] * 255, dtype=np.uint8)
    return ground


def shrink_blocks(values: NDArray[Any], shrink: int, how: Any) -> NDArray[Any]:
    """One value for each square of cells; the last squares may hang over the edge, where the edge is repeated."""
    if shrink == 1:
        return values
    rows, columns = (-(-side // shrink) * shrink for side in values.shape)
    padded = np.pad(values, ((0, rows - values.shape[0]), (0, columns - values.shape[1])), mode="edge")
    blocks = padded.reshape(rows // shrink, shrink, columns // shrink, shrink)
    return np.asarray(how(blocks, axis=(1, 3)))


def encode_png(pixels: Pixels) -> bytes:
    """Pixels as a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return file.getvalue()


def list_color_stops(name: str, count: int = 9) -> list[str]:
    """A color map as colors for a page's gradient."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps[name](k / (count - 1))) for k in range(count)]
