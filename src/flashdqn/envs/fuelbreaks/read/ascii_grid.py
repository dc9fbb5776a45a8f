"""ESRI ASCII grids (.asc): six lines that say where the grid lies, then its numbers, row by row from the north.

A file may come from a stranger: it is read as text, within limits, and nothing else is opened but a .prj file of
the same name.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.core.files import read_limited_file
from flashdqn.envs.fuelbreaks.georeference import Georeference
from flashdqn.envs.fuelbreaks.landscape import check_cell_count
from flashdqn.envs.fuelbreaks.read.coordinate_system import read_prj
from flashdqn.envs.fuelbreaks.read.notes import TellNote
from flashdqn.envs.fuelbreaks.read.raster_band import (
    RasterBand,
    find_crs,
    find_empty_cells,
    measure_cell,
)

#: The largest file, in bytes.
MOST_BYTES = 2**30
HEADER = re.compile(rb"\s*([A-Za-z_]+)[ \t]+([^\s]+)[ \t]*(?:\r\n|\r|\n|$)")
#: What the header's lines are called, in lower case.
KEYS = {
    "ncols",
    "nrows",
    "xllcorner",
    "yllcorner",
    "xllcenter",
    "yllcenter",
    "cellsize",
    "dx",
    "dy",
    "nodata_value",
}


def is_ascii_grid_name(path: Path) -> bool:
    """Whether a file's name is that of an ASCII grid."""
    return path.suffix.lower() == ".asc"


def read_ascii_grid(path: Path, tell: TellNote, measured: bool = True) -> RasterBand:
    """Read an ASCII grid; every error is one sentence with the file's name. A map, unlike a layer, may lie on any
    grid: its cells are not measured."""
    try:
        data = read_limited_file(path, MOST_BYTES)
    except OSError as error:
        raise EnvError(f"{path} cannot be read as an ASCII grid: {error.strerror}.") from None
    header, start = read_grid_header(path, data)
    rows, columns = read_grid_shape(path, header)
    values = parse_numbers(path, data[start:], rows, columns)
    crs = read_prj(path, tell)
    place = Georeference(crs, place_grid(path, header, rows))
    size = measure_cell(str(path), place.transform, find_crs(crs)) if measured else 0.0
    empty = find_empty_cells(values, header.get("nodata_value"))
    return RasterBand(path.name, values, empty, place, size)


def read_grid_header(path: Path, data: bytes) -> tuple[dict[str, float], int]:
    """The header's numbers by name, and where the cells begin."""
    header: dict[str, float] = {}
    start = 0
    while found := HEADER.match(data, start):
        key = found[1].decode().lower()
        if key not in KEYS:
            break
        try:
            header[key] = float(found[2])
        except ValueError:
            raise EnvError(
                f"{path} cannot be read as an ASCII grid: its {key} is {found[2][:20]!r}, not a number."
            ) from None
        start = found.end()
    if missing := [key for key in ("ncols", "nrows") if key not in header]:
        raise EnvError(
            f"{path} cannot be read as an ASCII grid: it does not begin with lines such as `ncols 100`, and lacks "
            f"{missing[0]}."
        )
    return header, start


def read_grid_shape(path: Path, header: dict[str, float]) -> tuple[int, int]:
    """Rows and columns."""
    for key in ("nrows", "ncols"):
        if not (1 <= header[key] <= 1e9 and header[key] == int(header[key])):
            raise EnvError(
                f"{path} cannot be read as an ASCII grid: its {key} is {header[key]:g}, not a number of cells."
            )
    rows, columns = int(header["nrows"]), int(header["ncols"])
    check_cell_count(str(path), rows, columns)
    return rows, columns


def place_grid(
    path: Path, header: dict[str, float], rows: int
) -> tuple[float, float, float, float, float, float]:
    """The affine map of a grid whose header gives the corner or the middle of its south-western cell."""
    width = header.get("cellsize", header.get("dx", 0.0))
    height = header.get("cellsize", header.get("dy", 0.0))
    if not (0 < width < 1e9 and 0 < height < 1e9):
        raise EnvError(
            f"{path} cannot be read as an ASCII grid: it needs a line such as `cellsize 30`, above 0."
        )
    west = header.get("xllcorner", header.get("xllcenter", width / 2) - width / 2)
    south = header.get("yllcorner", header.get("yllcenter", height / 2) - height / 2)
    if not np.isfinite([west, south]).all():
        raise EnvError(f"{path} cannot be read as an ASCII grid: its corner is {west:g}, {south:g}.")
    return (width, 0.0, west, 0.0, -height, south + rows * height)


def parse_numbers(path: Path, text: bytes, rows: int, columns: int) -> NDArray[np.float64]:
    """The numbers of all cells, [rows, columns]."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy before 2.3 only warns of a word that is not a number
            values = np.fromstring(text.decode("ascii"), dtype=np.float64, sep=" ")
    except (ValueError, DeprecationWarning):
        raise EnvError(describe_bad_word(path, text, columns)) from None
    if values.size != rows * columns:
        raise EnvError(
            f"{path} cannot be read as an ASCII grid: it has {values.size} numbers, and its header says {rows} x "
            f"{columns}."
        )
    return values.reshape(rows, columns)


def describe_bad_word(path: Path, text: bytes, columns: int) -> str:
    """A sentence that names the first word which is not a number, and its cell."""
    for number, word in enumerate(text.split()):
        try:
            float(word)
        except ValueError:
            row, column = divmod(number, columns)
            shown = word[:20].decode("ascii", errors="replace")
            return (
                f"{path} cannot be read as an ASCII grid: {shown!r} in row {row}, column {column} is not a number "
                "(decimals have a point)."
            )
    return f"{path} cannot be read as an ASCII grid: it holds something that is not a number."
