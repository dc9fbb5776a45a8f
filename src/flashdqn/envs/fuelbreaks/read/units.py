"""Units of layers, as LANDFIRE, FARSITE, FlamMap and GDAL name them."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.read.raster_band import RasterBand

Numbers = NDArray[np.float64]

#: What LANDFIRE's stored whole numbers are divided by to give a layer's unit.
SCALES = {
    "canopy_cover": 100.0,
    "canopy_height": 10.0,
    "canopy_base_height": 10.0,
    "canopy_bulk_density": 100.0,
}
#: The unit of a layer whose file does not say one: LANDFIRE's.
LANDFIRE_UNITS = {
    "elevation": "m",
    "slope": "degrees",
    "aspect": "degrees",
    "canopy_cover": "percent",
    "canopy_height": "m x 10",
    "canopy_base_height": "m x 10",
    "canopy_bulk_density": "kg/m3 x 100",
}
#: The unit of a layer whose numbers the file itself scales, or that stands beside a fire program's own files.
PLAIN_UNITS = LANDFIRE_UNITS | {
    "canopy_height": "m",
    "canopy_base_height": "m",
    "canopy_bulk_density": "kg/m3",
}

FOOT = 0.3048  # m
POUND_PER_CUBIC_FOOT = 16.01846337396014  # kg/m³
#: Canopy cover of FARSITE's categories, in percent.
COVER_CATEGORIES = {0: 0.0, 1: 10.0, 2: 30.0, 3: 60.0, 4: 75.0, 99: 0.0}
#: GRASS has 24 categories of aspect: 1 is east, 7 north, 13 west, 19 south; 25 is flat ground.
FLAT_CATEGORY = 25


def multiply_by(factor: float) -> Callable[[Numbers], Numbers]:
    """A unit that differs by a factor."""
    return lambda values: values * factor


def divide_by(factor: float) -> Callable[[Numbers], Numbers]:
    """A unit that is stored in parts: 10 for m · 10."""
    return lambda values: values / factor


def turn_percent_into_degrees(values: Numbers) -> Numbers:
    """A slope in percent as an angle."""
    return np.degrees(np.arctan(values / 100.0))


def turn_grass_degrees(values: Numbers) -> Numbers:
    """Degrees counterclockwise from east as degrees clockwise from north."""
    return (90.0 - values) % 360.0


def turn_grass_categories(values: Numbers) -> Numbers:
    """Steps of 15 degrees counterclockwise from east, which is 1, as degrees clockwise from north."""
    return np.where(values == FLAT_CATEGORY, 0.0, turn_grass_degrees((values - 1.0) * 15.0))


def turn_cover_categories(values: Numbers) -> Numbers:
    """FARSITE's categories of canopy cover as a share; −1 for what is not a category."""
    cover = np.full(values.shape, -1.0)
    for category, percent in COVER_CATEGORIES.items():
        cover[values == category] = percent / 100.0
    return cover


_LENGTHS = {"m": multiply_by(1.0), "ft": multiply_by(FOOT)}
_LENGTHS_BY_TEN = {"mx10": divide_by(10.0), "ftx10": multiply_by(FOOT / 10.0)}
_CONVERSIONS: dict[str, dict[str, Callable[[Numbers], Numbers]]] = {
    "elevation": _LENGTHS,
    "slope": {"degrees": multiply_by(1.0), "percent": turn_percent_into_degrees},
    "aspect": {
        "degrees": multiply_by(1.0),
        "azimuthdegrees": multiply_by(1.0),
        "grassdegrees": turn_grass_degrees,
        "grasscategories": turn_grass_categories,
    },
    "canopy_cover": {
        "percent": divide_by(100.0),
        "share": multiply_by(1.0),
        "categories": turn_cover_categories,
    },
    "canopy_height": _LENGTHS | _LENGTHS_BY_TEN,
    "canopy_base_height": _LENGTHS | _LENGTHS_BY_TEN,
    "canopy_bulk_density": {
        "kg/m3": multiply_by(1.0),
        "kg/m3x100": divide_by(100.0),
        "lb/ft3": multiply_by(POUND_PER_CUBIC_FOOT),
        "lb/ft3x1000": multiply_by(POUND_PER_CUBIC_FOOT / 1000.0),
    },
}
_SPELLINGS = {
    r"\(0-4\)": "",
    r"met(?:er|re)s?": "m",
    r"(?:feet|foot)": "ft",
    r"lbs": "lb",
    r"^(?:deg|degree|°)$": "degrees",
    r"^(?:%|pct)$": "percent",
    r"^(?:fraction|ratio|1)$": "share",
    r"^category$": "categories",
}


def normalize_unit(text: str) -> str:
    """A unit without spaces and in one spelling: `Meters x 10`, `m*10` and `m · 10` are `mx10`."""
    short = re.sub(r"[\s^_]+", "", text.lower()).replace("³", "3")
    short = re.sub(r"[*·×]", "x", short)
    for pattern, replacement in _SPELLINGS.items():
        short = re.sub(pattern, replacement, short)
    return short


def convert_unit(layer: str, band: RasterBand) -> Numbers:
    """A layer's numbers in its own unit; cells without data hold anything."""
    if layer == "fuel_model":
        return band.values
    unit = band.unit or LANDFIRE_UNITS[layer]
    if not band.unit:
        refuse_fractions(layer, band)
    known = _CONVERSIONS[layer]
    convert = known.get(normalize_unit(unit))
    if convert is None:
        raise EnvError(
            f"The unit of {layer} in {band.source} is {unit[:40]!r}: it must be one of {', '.join(known)}."
        )
    with np.errstate(all="ignore"):  # what is not a number, or infinite, is refused by the landscape
        values = convert(np.where(band.empty, 0.0, band.values))
    refuse_categories(layer, band, values)
    if layer == "aspect":  # −1 is flat ground
        values = np.where(band.values < 0, 0.0, values)
    return values


def refuse_fractions(layer: str, band: RasterBand) -> None:
    """Refuse a canopy with fractions and no unit: LANDFIRE stores m · 10, and other programs m."""
    if layer not in SCALES:
        return
    odd = (band.values != np.round(band.values)) & ~band.empty
    if not odd.any() or (layer == "canopy_cover" and band.values[~band.empty].max() > 1.0):
        return
    row, column = np.argwhere(odd)[0]
    raise EnvError(
        f"{band.source} does not say the unit of {layer}, and holds {band.values[row, column]:g} in row "
        f"{row}, column "
        f"{column}: LANDFIRE's {LANDFIRE_UNITS[layer]} are whole numbers. Round them, or write the unit into "
        "a GeoTIFF "
        f"file (gdal_edit.py -units {PLAIN_UNITS[layer]} FILE.tif)."
    )


def refuse_categories(layer: str, band: RasterBand, values: Numbers) -> None:
    """Refuse numbers that are not a category of their unit."""
    known = normalize_unit(band.unit)
    bad = np.zeros(values.shape, dtype=np.bool_)
    if known == "categories":
        bad = values < 0
    elif known == "grasscategories":
        bad = (band.values < 1) | (band.values > FLAT_CATEGORY)
    bad &= ~band.empty
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise EnvError(
            f"The unit of {layer} in {band.source} is {band.unit[:40]!r}, and {band.values[row, column]:g} "
            f"in row {row}, "
            f"column {column} is not one of its categories: correct the unit in the file."
        )
