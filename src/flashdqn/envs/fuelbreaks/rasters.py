"""Landscapes on disk: a folder of GeoTIFF files (geotiff.py), or one .npz file (npz.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.geotiff import WORDS, check_same_grid, find_bands, is_geotiff_name, read_band
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape
from flashdqn.envs.fuelbreaks.npz import read_npz


def read_landscape(path: Path) -> Landscape:
    """A landscape from a folder of GeoTIFF files, or from an .npz file; every error names the path."""
    try:
        return read_folder(path) if path.is_dir() else read_landscape_file(path)
    except EnvError as error:
        if str(path) in str(error):
            raise
        raise EnvError(f"{path}: {error}") from None
    except OSError as error:
        raise EnvError(f"{path} cannot be read as a landscape: {error.strerror}.") from None
    except MemoryError:
        raise EnvError(f"{path} does not fit into this machine's memory.") from None


def read_landscape_file(path: Path) -> Landscape:
    """A landscape from a file."""
    if path.suffix == ".npz":
        return read_npz(path)
    if not path.exists():
        raise EnvError(f"There is no landscape at {path}: give a folder of GeoTIFF layers, or an .npz file.")
    raise EnvError(f"{path} is not a landscape: give a folder of GeoTIFF layers, or an .npz file.")


def is_landscape(path: Path) -> bool:
    """Whether a path looks like a landscape: an .npz file, or a folder that holds GeoTIFF files."""
    if path.is_dir():
        return any(map(is_geotiff_name, path.iterdir()))
    return path.suffix == ".npz"


def find_landscapes(folder: Path) -> list[Path]:
    """All landscapes at a path: the path itself, or those directly in it, by name."""
    try:
        if is_landscape(folder):
            return [folder]
        found = sorted(path for path in folder.iterdir() if is_landscape(path)) if folder.is_dir() else []
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise EnvError(f"{str(folder)!r} cannot be read as landscapes: {reason}.") from None
    if not found:
        raise EnvError(
            f"There is no landscape in {folder}: it must be a folder of GeoTIFF layers, an .npz file, or a "
            "folder of these. `flashdqn landscapes make` makes some."
        )
    return found


def read_folder(folder: Path) -> Landscape:
    """Read the layers of a folder, and check that they match."""
    bands = find_bands(folder)
    if missing := [layer for layer in LAYERS if layer not in bands]:
        words = ", ".join(f"{layer} (a file with '{WORDS[layer][-1]}' in its name)" for layer in missing)
        raise EnvError(f"The landscape {folder} lacks {words}.")
    layers: dict[str, NDArray[Any]] = {}
    first: dict[str, Any] = {}
    for layer in LAYERS:
        array, about = read_band(*bands[layer], layer)
        check_same_grid(folder, layer, about, first or about)
        first = first or about | {"layer": layer}
        layers[layer] = array
    return Landscape(**layers, cell_size=first["cell size"], name=folder.name)
