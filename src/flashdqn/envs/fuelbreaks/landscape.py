"""A landscape: eight read-only layers of a raster, in LANDFIRE's form.

Row 0 is the north, column 0 the west. A break is never written into a landscape: the game keeps its breaks, and
gives them to the fire as a mask. So all episodes on one landscape begin on the same ground.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.georeference import Georeference

#: The layers in the order of the channels; `fuel_model` comes last.
LAYERS = (
    "slope",
    "aspect",
    "elevation",
    "canopy_cover",
    "canopy_bulk_density",
    "canopy_base_height",
    "canopy_height",
    "fuel_model",
)

#: Fuel models that do not burn: urban, snow, farmland, water, bare ground (Scott & Burgan 2005).
NON_BURNABLE = {91: "urban", 92: "snow or ice", 93: "farmland", 98: "water", 99: "bare ground"}

#: All fuel models that a landscape may hold: Anderson's 13, and the 40 of Scott & Burgan.
FUEL_MODELS = frozenset(NON_BURNABLE).union(
    range(1, 14),
    range(101, 110),
    range(121, 125),
    range(141, 150),
    range(161, 166),
    range(181, 190),
    range(201, 205),
)

#: What each layer may hold, in its unit.
RANGES: dict[str, tuple[float, float, str]] = {
    "elevation": (-500.0, 9000.0, "m"),
    "slope": (0.0, 89.0, "degrees"),
    "aspect": (0.0, 360.0, "degrees"),
    "canopy_cover": (0.0, 1.0, ""),
    "canopy_height": (0.0, 120.0, "m"),
    "canopy_base_height": (0.0, 120.0, "m"),
    "canopy_bulk_density": (0.0, 2.0, "kg/m³"),
}

#: The most cells of a landscape: 150 km x 150 km of cells of 30 m. Its layers then take about 0.8 GB.
MOST_CELLS = 25_000_000

Raster = NDArray[np.float32]


def check_cell_count(name: str, *shape: int) -> None:
    """Refuse a raster that is too large, before it is read."""
    if math.prod(shape) > MOST_CELLS:
        raise EnvError(
            f"{name} has {' x '.join(map(str, shape))} cells, and {MOST_CELLS:,} are the most: crop it first."
        )


def name_cells(count: int) -> str:
    """1 cell, 2 cells."""
    return f"{count:,} {'cell' if count == 1 else 'cells'}"


def shorten_error(error: Exception) -> str:
    """A library's error about a damaged file, which may quote the damage, in a few words."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
    return text if len(text) <= 120 else f"{text[:119]}…"


@dataclass(frozen=True, eq=False)
class Landscape:
    """Layers [H, W]; float32 except the fuel models. The arrays are read-only copies."""

    elevation: Raster  # m
    slope: Raster  # degrees
    aspect: Raster  # degrees clockwise from north: the downhill direction
    canopy_cover: Raster  # 0 … 1
    canopy_height: Raster  # m
    canopy_base_height: Raster  # m
    canopy_bulk_density: Raster  # kg/m³
    fuel_model: NDArray[np.int16]
    cell_size: float = 30.0  # m
    name: str = "landscape"
    place: Georeference | None = None  # where it lies; None for generated ones

    def __post_init__(self) -> None:
        shape = np.shape(self.fuel_model)
        if len(shape) != 2 or 0 in shape:
            raise EnvError(
                f"The layers of a landscape are [rows, columns], and {self.name} has {list(shape)}."
            )
        for layer in LAYERS:
            given = np.asarray(getattr(self, layer))
            if given.shape != shape:
                raise EnvError(
                    f"All layers of a landscape have one shape: in {self.name}, {layer} is {list(given.shape)} and "
                    f"fuel_model {list(shape)}."
                )
            array = self._convert_layer(layer, given)
            array.setflags(write=False)
            object.__setattr__(self, layer, array)
        self._check_values()

    def _convert_layer(self, layer: str, given: NDArray[Any]) -> NDArray[Any]:
        """A copy in the layer's type. A fuel model that does not fit must not become another one."""
        if given.dtype.kind not in "biuf":
            raise EnvError(f"In {self.name}, {layer} must hold plain numbers, and holds {given.dtype}.")
        if layer != "fuel_model":
            with np.errstate(over="ignore"):  # a number that is too large becomes infinite, and is refused
                return np.array(given, dtype=np.float32, order="C")
        fits = given.dtype == np.int16 or bool(np.all(np.isfinite(given) & (abs(given) < 2**15)))
        array = np.array(given if fits else 0, dtype=np.int16, order="C")
        if not fits or not np.array_equal(array, given):
            with np.errstate(invalid="ignore"):
                row, column = np.argwhere(~((np.round(given) == given) & (abs(given) < 2**15)))[0]
            raise EnvError(
                f"In {self.name}, fuel_model must hold the whole numbers of fuel models, and is "
                f"{given[row, column]:g} in row {row}, column {column}."
            )
        return array

    def _check_values(self) -> None:
        if not 0 < self.cell_size < 10_000:
            raise EnvError(f"The cells of {self.name} must have a side in meters, and have {self.cell_size}.")
        unknown = sorted(set(np.unique(self.fuel_model).tolist()) - FUEL_MODELS)
        if unknown:
            where = np.argwhere(self.fuel_model == unknown[0])[0]
            raise EnvError(
                f"{self.name} has the fuel model {unknown[0]} (first in row {where[0]}, column {where[1]}), "
                "which is neither Anderson's (1-13) nor Scott & Burgan's (91-99, 101-204): correct the layer "
                "fuel_model."
            )
        for layer, (low, high, unit) in RANGES.items():
            array = getattr(self, layer)
            bad = ~((array >= low) & (array <= high))
            if bad.any():
                where = np.argwhere(bad)[0]
                raise EnvError(
                    f"In {self.name}, {layer} must lie in {low:g} … {high:g} {unit}".rstrip()
                    + f", and is {array[tuple(where)]:g} in row {where[0]}, column {where[1]}."
                )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.fuel_model.shape
        return rows, columns

    @property
    def burnable(self) -> NDArray[np.bool_]:
        """Cells with something to burn, [H, W]."""
        return ~np.isin(self.fuel_model, list(NON_BURNABLE))

    def window(self, row: int, column: int, size: int, name: str | None = None) -> Landscape:
        """The square of `size` cells whose north-west corner is (row, column)."""
        rows, columns = self.shape
        if not (0 <= row <= rows - size and 0 <= column <= columns - size):
            raise EnvError(
                f"{self.name} has {rows} x {columns} cells: no window of {size} x {size} fits at row {row}, "
                f"column {column}."
            )
        cut = (slice(row, row + size), slice(column, column + size))
        layers: dict[str, Any] = {layer: getattr(self, layer)[cut] for layer in LAYERS}
        place = None if self.place is None else self.place.move_corner(row, column)
        return Landscape(
            **layers, cell_size=self.cell_size, name=name or f"{self.name}@{row},{column}", place=place
        )

    def layers(self) -> dict[str, NDArray[Any]]:
        """The layers by name, in the order of `LAYERS`."""
        return {layer: getattr(self, layer) for layer in LAYERS}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Landscape):
            return NotImplemented
        same = (np.array_equal(getattr(self, layer), getattr(other, layer)) for layer in LAYERS)
        return self.cell_size == other.cell_size and all(same)

    def __hash__(self) -> int:
        return hash((self.cell_size, self.fuel_model.tobytes(), self.elevation.tobytes()))


def join_landscapes(landscapes: Sequence[Landscape]) -> Landscape:
    """Landscapes of one width below each other; its neighbors across a border are none in truth."""
    layers: dict[str, Any] = {
        layer: np.concatenate([getattr(land, layer) for land in landscapes]) for layer in LAYERS
    }
    return Landscape(**layers, cell_size=landscapes[0].cell_size, name=landscapes[0].name)


def slope_and_aspect(elevation: NDArray[Any], cell_size: float) -> tuple[Raster, Raster]:
    """Slope and aspect in degrees, by central differences of the elevation in meters.

    The aspect is the downhill direction, clockwise from north; it is 0 for flat ground.
    """
    by_row, by_column = np.gradient(np.asarray(elevation, dtype=np.float64), cell_size)
    # Rows go south: by_row is the rise toward the south, by_column the rise toward the east.
    slope = np.degrees(np.arctan(np.hypot(by_row, by_column)))
    aspect = np.degrees(np.arctan2(-by_column, by_row)) % 360.0
    return slope.astype(np.float32), np.where(slope > 0, aspect, 0.0).astype(np.float32)
