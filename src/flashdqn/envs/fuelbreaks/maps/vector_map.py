"""Points and polygons from a GeoPackage, GeoJSON or Shapefile. A file may come from a stranger.

The file is read into memory, and its kind is checked by its content before GDAL sees it: so GDAL cannot take it for
one of the formats that open other files or addresses.
"""

from __future__ import annotations

import io
import sqlite3
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError, FlashDQNError
from flashdqn.core.files import parse_json, read_limited_file
from flashdqn.envs.fuelbreaks.geotiff import import_rasterio
from flashdqn.envs.fuelbreaks.landscape import Landscape, shorten_error
from flashdqn.envs.fuelbreaks.read.raster_band import find_crs

#: The largest file, in bytes.
MOST_BYTES = 2**30
ENDINGS = (".gpkg", ".geojson", ".json", ".shp")
#: Files that belong to a Shapefile.
SHAPEFILE_PARTS = (".shp", ".shx", ".dbf", ".prj", ".cpg")
#: An SQLite file in this mode has more of its content in a file beside it.
WRITE_AHEAD = 2


@dataclass(frozen=True, eq=False)
class MapShapes:
    """Shapes in the landscape's coordinates, and an amount for each."""

    path: Path
    shapes: NDArray[Any]  # [N] of shapely
    amounts: NDArray[np.float64]  # [N]: 1 without an attribute


def is_vector_map(path: Path) -> bool:
    """Whether a file's name is that of points or polygons."""
    return path.suffix.lower() in ENDINGS


def read_shapes(path: Path, landscape: Landscape, attribute: str = "", layer: str = "") -> MapShapes:
    """All shapes of a file, moved into the landscape's coordinate system; every error is one sentence."""
    pyogrio, shapely = import_vector_tools()
    try:
        data = read_vector_bytes(path)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # about names in memory, and damage that one sentence is said about
            meta, _, shapes, columns = pyogrio.raw.read(
                data,
                layer=choose_layer(path, pyogrio.list_layers(data), layer),
                columns=None if attribute else [],
                force_2d=True,
            )
        found = shapely.from_wkb(shapes)
    except FlashDQNError:
        raise
    except OSError as error:
        raise EnvError(f"{path} cannot be read as a map: {error.strerror or 'it is damaged'}.") from None
    except Exception as error:  # GDAL, pyogrio and shapely raise errors of many kinds
        raise EnvError(f"{path} cannot be read as a map: {shorten_error(error)}.") from None
    there = ~(shapely.is_missing(found) | shapely.is_empty(found))
    if not there.any():
        raise EnvError(f"{path} does not hold a shape.")
    amounts = read_amounts(path, meta["fields"], columns, attribute, len(found))
    return MapShapes(path, move_shapes(path, found[there], meta["crs"], landscape), amounts[there])


def read_vector_bytes(path: Path) -> bytes:
    """A file's bytes, if they are what its name says; a Shapefile's parts become one archive in memory."""
    ending = path.suffix.lower()
    data = read_limited_file(path, MOST_BYTES)
    if ending == ".gpkg":
        check_geopackage(path, data)
    elif ending in (".geojson", ".json"):
        check_geojson(path, data)
    elif ending == ".shp":
        return pack_shapefile(path, data)
    else:
        raise EnvError(f"{path} is not a map: give a .gpkg, .geojson or .shp file.")
    return data


def check_geopackage(path: Path, data: bytes) -> None:
    """Refuse what is not a GeoPackage, or one with tables that a program computes from elsewhere."""
    if not data.startswith(b"SQLite format 3\0") or len(data) < 100:
        raise EnvError(f"{path} is not a GeoPackage.")
    if WRITE_AHEAD in data[18:20]:
        raise EnvError(
            f"{path} is still open in another program: close it there (in QGIS, remove the layer)."
        )
    base = sqlite3.connect(":memory:")
    try:
        base.deserialize(data)
        base.execute("PRAGMA trusted_schema = OFF")
        texts = [text or "" for (text,) in base.execute("SELECT sql FROM sqlite_master")]
    finally:
        base.close()
    for text in texts:
        words = " ".join(text.lower().split())
        if words.startswith("create virtual table") and " using rtree" not in words:
            raise EnvError(
                f"{path} has a virtual table, which is not read: export the layer into a new GeoPackage."
            )
    if not any("gpkg_contents" in text for text in texts):
        raise EnvError(f"{path} is a database, but not a GeoPackage.")


def check_geojson(path: Path, data: bytes) -> None:
    """Refuse what is not a collection of features."""
    try:
        found = parse_json(data.decode("utf-8-sig"))
    except ValueError as error:
        raise EnvError(f"{path} is not GeoJSON: {shorten_error(error)}.") from None
    if not isinstance(found, dict) or found.get("type") != "FeatureCollection":
        raise EnvError(f"{path} is not GeoJSON with a FeatureCollection.")


def pack_shapefile(path: Path, data: bytes) -> bytes:
    """A Shapefile and the files that belong to it, as an archive."""
    if not data.startswith(b"\0\0\x27\x0a"):
        raise EnvError(f"{path} is not a Shapefile.")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("map.shp", data)
        for ending in SHAPEFILE_PARTS[1:]:
            side = path.with_suffix(ending)
            if side.is_file():
                archive.writestr(f"map{ending}", read_limited_file(side, MOST_BYTES))
    return packed.getvalue()


def choose_layer(path: Path, layers: Any, asked: str) -> int:
    """The number of the layer that is asked for, or of the only one with shapes. GDAL gives a layer without a name
    another one each time, so names do not find it again."""
    found = {k: str(name) for k, (name, kind) in enumerate(layers) if kind is not None}
    names = list(found.values())
    if asked not in names if asked else len(names) != 1:
        wanted = f"the layer {asked!r}" if asked else "one layer"
        raise EnvError(f"{path} must have {wanted}, and has {', '.join(names)[:200] or 'none'}.")
    return next(k for k, name in found.items() if not asked or name == asked)


def read_amounts(path: Path, fields: Any, columns: Any, attribute: str, count: int) -> NDArray[np.float64]:
    """The numbers of an attribute; 1 for every shape without one."""
    if not attribute:
        return np.ones(count)
    names = [str(name) for name in fields]
    if attribute not in names:
        raise EnvError(
            f"{path} lacks the attribute {attribute!r}: it has {', '.join(names)[:200] or 'none'}."
        )
    column = np.asarray(columns[names.index(attribute)])
    if column.dtype.kind not in "biuf":
        raise EnvError(f"In {path}, the attribute {attribute!r} must hold numbers, and holds texts.")
    amounts = column.astype(np.float64)
    bad = ~(np.isfinite(amounts) & (amounts >= 0))
    if bad.any():
        number = int(np.argmax(bad))
        raise EnvError(
            f"In {path}, the attribute {attribute!r} must hold numbers from 0 up, and holds "
            f"{amounts[number]:g} in shape "
            f"{number + 1}."
        )
    return amounts


def move_shapes(path: Path, shapes: NDArray[Any], crs: str | None, landscape: Landscape) -> NDArray[Any]:
    """Shapes in the landscape's coordinate system."""
    import_rasterio()
    import shapely
    from rasterio import warp

    if landscape.place is None or not landscape.place.crs:
        raise EnvError(
            f"The landscape {landscape.name} does not say its coordinate system, so {path.name} cannot be "
            "laid onto it: "
            "give a raster with the landscape's cells."
        )
    theirs, ours = find_crs(crs or ""), find_crs(landscape.place.crs)
    if theirs is None:
        raise EnvError(
            f"{path} does not say its coordinate system: set it (in QGIS, Export > Save features as)."
        )
    try:
        moved = shapely.transform(
            shapes, lambda points: np.column_stack(warp.transform(theirs, ours, *points.T))
        )
    except Exception as error:  # PROJ and rasterio raise errors of many kinds
        raise EnvError(
            f"{path} cannot be moved into the landscape's coordinates: {shorten_error(error)}."
        ) from None
    return np.asarray(np.where(shapely.is_valid(moved), moved, shapely.buffer(moved, 0.0)))


def import_vector_tools() -> tuple[Any, Any]:
    """pyogrio and shapely, or one sentence that says how to get them."""
    try:
        import pyogrio
        import pyogrio.raw
        import shapely
    except ImportError:
        raise EnvError(
            "Maps of points or polygons need pyogrio and shapely, which are not installed: pip install "
            "'flashdqn[landscapes]', or give a raster."
        ) from None
    return pyogrio, shapely
