"""All files of a plan into one folder."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flashdqn.core.errors import ConfigError
from flashdqn.core.files import can_add_file, write_json_atomically, write_text_atomically
from flashdqn.planning.report import PlanReport
from flashdqn.planning.write.numbers import make_plan_numbers
from flashdqn.planning.write.page import make_plan_page

#: What the files for a GIS need.
GIS_PACKAGES = ("rasterio", "pyogrio")
PIP_LINE = "pip install 'flashdqn[landscapes]'"


def find_missing_packages() -> list[str]:
    """The packages that the files for a GIS need, and that are not installed."""
    return [name for name in GIS_PACKAGES if importlib.util.find_spec(name) is None]


def note_missing_packages(report: PlanReport) -> PlanReport:
    """The report with a note, where the files for a GIS cannot be written."""
    missing = find_missing_packages()
    if not missing:
        return report
    words = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: {PIP_LINE}"
    return replace(report, notes=(*report.notes, f"There are no files for a GIS, because {words}."))


def check_folder(folder: Path) -> None:
    """Make the folder for the files, before there is any work to lose; one that cannot be written to is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"'{folder}' cannot be written to: {reason}.") from None
    if not can_add_file(folder):
        raise ConfigError(f"'{folder}' cannot be written to. Name another folder.")


def write_plan_files(
    report: PlanReport, folder: Path, progress: Callable[[float, str], None] | None = None
) -> list[Path]:
    """Write everything; returns the paths. Every file is whole or not there, also after Ctrl-C. Without rasterio or
    pyogrio the files for a GIS are left out."""
    from flashdqn.planning.write.picture import draw_map

    name = "score" if report.is_given else "plan"
    page, numbers, picture = (folder / f"{name}.{ending}" for ending in ("html", "json", "png"))
    tell = progress or (lambda share, words: None)
    tell(0.0, "writing files for a GIS")
    paths = [] if find_missing_packages() else _write_gis_files(report, folder, name)
    tell(0.5, "drawing the map")
    draw_map(report, picture)
    tell(0.8, "writing the page")
    write_json_atomically(numbers, make_plan_numbers(report))
    write_text_atomically(page, make_plan_page(report))
    return [*paths, picture, numbers, page]


def _write_gis_files(report: PlanReport, folder: Path, name: str) -> list[Path]:
    from flashdqn.planning.write.rasters import write_rasters
    from flashdqn.planning.write.vectors import write_geopackage

    path = folder / f"{name}.gpkg"
    write_geopackage(report, path)
    return [*write_rasters(report, folder), path]
