"""The coordinate system in a .prj file beside a raster that cannot hold one itself. It is read as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flashdqn.core.files import read_limited_file
from flashdqn.envs.fuelbreaks.read.notes import TellNote

#: The longest .prj file, in bytes.
MOST_PRJ = 64_000
#: How sure PROJ must be, in percent, that two systems with different names are one.
SURE = 90


def read_prj(path: Path, tell: TellNote) -> str:
    """Well-known text for the raster at `path`; empty if there is no .prj file beside it, or it is not
    understood."""
    side = path.with_suffix(".prj")
    if not side.is_file():
        return ""
    try:
        text = read_limited_file(side, MOST_PRJ).decode("utf-8", errors="replace").strip().lstrip("\ufeff")
    except OSError as error:
        tell(f"{side} is not read ({error.strerror}): the coordinate system is unknown.")
        return ""
    found = parse_wkt(text)
    if not found:
        tell(f"{side} is not a coordinate system as well-known text: the coordinate system is unknown.")
    return found


def parse_wkt(text: str) -> str:
    """Well-known text in GDAL's form, also from Esri's; empty if it is none. Nothing is looked up elsewhere."""
    if not text.upper().startswith(("PROJC", "GEOGC", "COMPD", "PROJECTEDCRS", "GEODCRS", "BOUNDCRS")):
        return ""
    try:
        from rasterio.crs import CRS
    except ImportError:
        return text
    try:
        return str(find_listed(CRS.from_wkt(text, morph_from_esri_dialect=True)).to_wkt())
    except Exception:  # PROJ raises errors of many kinds
        return ""


def find_listed(system: Any) -> Any:
    """The coordinate system of PROJ's own list that is the same: it has a code, which a .prj file leaves out and by
    which other programs know it. The given one, if the list has none."""
    code = system.to_authority(confidence_threshold=SURE)
    listed = None if code is None else type(system).from_authority(*code)
    return listed if listed == system else system
