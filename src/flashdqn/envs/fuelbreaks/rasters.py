"""Landscapes on disk, in every form that fire planners have: docs/planning.md lists them."""

from __future__ import annotations

from pathlib import Path

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.geotiff import is_geotiff_name
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.npz import read_npz
from flashdqn.envs.fuelbreaks.read.assemble import Holes, build_landscape
from flashdqn.envs.fuelbreaks.read.cell2fire import is_cell2fire_folder, read_cell2fire_layers
from flashdqn.envs.fuelbreaks.read.gdal_bands import is_lcp_name
from flashdqn.envs.fuelbreaks.read.layer_folder import is_layer_name, read_layer_folder, read_layer_stack
from flashdqn.envs.fuelbreaks.read.notes import TellNote, log_note

#: What a landscape may be, in words.
FORMS = (
    "a GeoTIFF or .lcp file with all layers as bands, a folder of GeoTIFF or .asc layers, a Cell2Fire "
    "folder, or an .npz file"
)


def read_landscape(path: Path, holes: Holes = "refuse", tell: TellNote = log_note) -> Landscape:
    """A landscape from a file or a folder; every error names the path.

    `holes`: what becomes of cells without data. nonburnable: bare ground. `tell` takes a sentence for everything
    that had to be assumed.
    """
    try:
        read = read_landscape_folder if path.is_dir() else read_landscape_file
        return read(path, holes, tell)
    except EnvError as error:
        if str(path) in str(error):
            raise
        raise EnvError(f"{path}: {error}") from None
    except OSError as error:
        raise EnvError(f"{path} cannot be read as a landscape: {error.strerror}.") from None
    except MemoryError:
        raise EnvError(f"{path} does not fit into this machine's memory.") from None


def read_landscape_file(path: Path, holes: Holes, tell: TellNote) -> Landscape:
    """A landscape from a file."""
    if path.suffix == ".npz":
        return read_npz(path)
    if not path.exists() and not path.is_symlink():
        raise EnvError(f"There is no landscape at {path}: give {FORMS}.")
    if is_geotiff_name(path) or is_lcp_name(path):
        return build_landscape(read_layer_stack(path, tell), path, holes, tell)
    raise EnvError(f"{path} is not a landscape: give {FORMS}.")


def read_landscape_folder(folder: Path, holes: Holes, tell: TellNote) -> Landscape:
    """A landscape from a folder of layers."""
    read_layers = read_cell2fire_layers if is_cell2fire_folder(folder) else read_layer_folder
    return build_landscape(read_layers(folder, tell), folder, holes, tell)


def is_landscape(path: Path) -> bool:
    """Whether a path looks like a landscape: a file with all layers, or a folder that holds layers."""
    if path.is_dir():
        return any(map(is_layer_name, path.iterdir()))
    return path.suffix == ".npz" or is_lcp_name(path) or is_geotiff_name(path)


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
            f"There is no landscape in {folder}: it must be {FORMS}, or a folder of these. `flashdqn "
            "landscapes make` "
            "makes some."
        )
    return found
