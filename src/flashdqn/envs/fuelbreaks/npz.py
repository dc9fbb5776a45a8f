"""Landscapes as one .npz file: a zip archive of arrays. A file may come from a stranger.

Nothing is unpickled. What an array will take in memory is known from its header before it is read, and is checked.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError, FlashDQNError
from flashdqn.core.files import read_limited_file, replace_file
from flashdqn.envs.fuelbreaks.georeference import Georeference
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape, check_cell_count, shorten_error

CELL_SIZE, USUAL_CELL_SIZE = "cell_size", 30.0
#: Where a landscape lies, if it is known: six numbers, and the coordinate system as bytes of UTF-8.
TRANSFORM, CRS = "transform", "crs"
#: The largest file, in bytes.
MOST_BYTES = 2**31
#: The most arrays in a file.
MOST_ARRAYS = 1000
#: The most bytes of an array's header; that of a layer has about a hundred.
MOST_HEADER = 10_000


def read_npz(path: Path) -> Landscape:
    """Read the layers in their own units, and the cell size."""
    try:
        arrays = read_arrays(path)
    except FlashDQNError:
        raise
    except OSError as error:
        raise EnvError(f"{path} cannot be read as a landscape: {error.strerror or error}.") from None
    except Exception as error:  # a damaged archive raises errors of many kinds: zipfile's, zlib's, NumPy's
        reason = shorten_error(error)
        raise EnvError(
            f"{path} cannot be read as a landscape: it is damaged, or not an .npz file ({reason})."
        ) from None
    if missing := [layer for layer in LAYERS if layer not in arrays]:
        raise EnvError(f"The landscape {path} lacks {', '.join(missing)}.")
    layers: dict[str, Any] = {layer: arrays[layer] for layer in LAYERS}
    return Landscape(
        **layers, cell_size=read_cell_size(path, arrays), name=path.stem, place=read_place(path, arrays)
    )


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a landscape by name; other arrays of the file are not read."""
    with zipfile.ZipFile(io.BytesIO(read_limited_file(path, MOST_BYTES))) as archive:
        entries = archive.infolist()
        names = [entry.filename.removesuffix(".npy") for entry in entries]
        if len(names) > MOST_ARRAYS or len(set(names)) < len(names):
            raise EnvError(f"{path} is not a landscape: it has {len(names)} arrays, or two of one name.")
        arrays = {}
        for name, entry in zip(names, entries, strict=True):
            # Opened also where it is not read: this compares the names in the archive.
            with archive.open(entry) as file:
                if name in (*LAYERS, CELL_SIZE, TRANSFORM, CRS):
                    arrays[name] = read_array(path, name, file)
        return arrays


def read_array(path: Path, name: str, file: Any) -> NDArray[Any]:
    """One array, after a look at what its header says about its size."""
    shape, by_columns, dtype = read_header(file)
    if dtype.kind not in "biuf":
        raise EnvError(f"In {path}, {name} holds {dtype}: a layer must hold plain numbers.")
    check_cell_count(f"{name} of {path}", *shape)
    size = math.prod(shape) * dtype.itemsize
    data = file.read(size + 1)  # one more: at the end of an entry, its checksum is compared
    if len(data) != size:
        raise EnvError(
            f"In {path}, {name} is damaged: it does not have the {size} bytes that its shape needs."
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C")


def read_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """An array's shape, its order and its kind of numbers."""
    version = npy.read_magic(file)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"unknown version {version} of the array format")
    # NumPy would read a header of four gigabytes before it refuses it: a small archive can hold one
    length = file.read(2 if version == (1, 0) else 4)
    size = int.from_bytes(length, "little")
    if size > MOST_HEADER:
        raise ValueError(f"a header of {size:,} bytes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about files that Python 2 has written
        shape, by_columns, dtype = read(io.BytesIO(length + file.read(size)))
    return shape, by_columns, dtype


def read_cell_size(path: Path, arrays: dict[str, NDArray[Any]]) -> float:
    """The side of a cell in meters."""
    value = arrays.get(CELL_SIZE, np.float64(USUAL_CELL_SIZE))
    if value.size != 1:
        raise EnvError(f"In {path}, {CELL_SIZE} must be one number, and has the shape {list(value.shape)}.")
    return float(value.item())


def read_place(path: Path, arrays: dict[str, NDArray[Any]]) -> Georeference | None:
    """Where a landscape lies; None if the file does not say it."""
    if TRANSFORM not in arrays:
        return None
    numbers, text = arrays[TRANSFORM], arrays.get(CRS, np.zeros(0, dtype=np.uint8))
    if numbers.shape != (6,) or not np.isfinite(numbers).all() or text.dtype != np.uint8:
        raise EnvError(f"In {path}, {TRANSFORM} must be six numbers, and {CRS} a text as bytes.")
    a, b, c, d, e, f = map(float, numbers)
    return Georeference(text.tobytes().decode("utf-8", errors="replace"), (a, b, c, d, e, f))


def list_place_arrays(place: Georeference | None) -> dict[str, NDArray[Any]]:
    """The arrays that say where a landscape lies."""
    if place is None:
        return {}
    return {TRANSFORM: np.array(place.transform), CRS: np.frombuffer(place.crs.encode(), dtype=np.uint8)}


def write_npz(landscape: Landscape, path: Path) -> None:
    """Write all layers to one file, in their own units."""
    path.parent.mkdir(parents=True, exist_ok=True)
    layers: dict[str, Any] = {**landscape.layers(), **list_place_arrays(landscape.place)}
    with replace_file(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **layers, cell_size=np.float64(landscape.cell_size))
