"""Maps of a plan as GeoTIFF: the order of breaks, and the chance to burn before and after."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.files import replace_file
from flashdqn.envs.fuelbreaks.geotiff import import_rasterio
from flashdqn.planning.frame import GridFrame, make_frame
from flashdqn.planning.report import PlanReport

#: No data in a map of chances; where nothing can burn, the chance is 0 and not missing.
NO_CHANCE = -1.0
#: A raster with a longer side is tiled, and has smaller copies of itself (overviews) to be drawn from.
LARGE_SIDE = 512


def write_rasters(report: PlanReport, folder: Path) -> list[Path]:
    """Write the three GeoTIFF files of a report; returns their paths."""
    frame, judgement = make_frame(report.problem.landscape), report.judgement
    order = draw_break_order(report.written_plan.order, frame.shape)
    maps: list[tuple[str, NDArray[Any], float, str]] = [
        ("breaks", order, 0, "order of breaks, from 1"),
        (
            "burn_probability_before",
            judgement.before.burn_probability,
            NO_CHANCE,
            "share of fires that burn a cell, without breaks",
        ),
        (
            "burn_probability_after",
            report.after.burn_probability,
            NO_CHANCE,
            "share of fires that burn a cell, with breaks",
        ),
    ]
    paths = []
    for name, values, no_data, about in maps:
        paths.append(folder / f"{name}.tif")
        write_geotiff(paths[-1], values, frame, no_data, about)
    return paths


def draw_break_order(order: NDArray[np.int64], shape: tuple[int, int]) -> NDArray[np.int32]:
    """The place of every break in the plan's order, from 1; 0 where there is none, [H, W]."""
    drawn = np.zeros(shape[0] * shape[1], dtype=np.int32)
    drawn[order] = np.arange(1, len(order) + 1, dtype=np.int32)
    return drawn.reshape(shape)


def write_geotiff(path: Path, values: NDArray[Any], frame: GridFrame, no_data: float, about: str) -> None:
    """Write one band, compressed, at its place; without a known place, in plain meters."""
    rasterio = import_rasterio()
    rows, columns = frame.shape
    is_large = max(rows, columns) > LARGE_SIDE
    options: dict[str, Any] = {"compress": "deflate", "predictor": 3 if values.dtype.kind == "f" else 2}
    if is_large:
        options |= {"tiled": True, "blockxsize": 256, "blockysize": 256}
    with replace_file(path) as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(
            temporary,
            "w",
            driver="GTiff",
            height=rows,
            width=columns,
            count=1,
            dtype=values.dtype,
            crs=frame.crs or None,
            transform=rasterio.Affine(*frame.transform),
            nodata=no_data,
            **options,
        ) as file:
            file.write(values, 1)
            file.set_band_description(1, about)
            if is_large:
                kinds = rasterio.enums.Resampling  # `mode` leaves out no data: a thin line of breaks stays
                kind = kinds.average if values.dtype.kind == "f" else kinds.mode
                file.build_overviews(_choose_overviews(max(rows, columns)), kind)


def _choose_overviews(side: int) -> list[int]:
    factors = [2]
    while side / factors[-1] > LARGE_SIDE:
        factors.append(2 * factors[-1])
    return factors
