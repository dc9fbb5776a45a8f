"""From rows and columns to coordinates: where a landscape lies, or plain meters where nobody knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashdqn.envs.fuelbreaks.landscape import Landscape

#: A plane without a place on Earth, as GeoPackage calls it.
PLAIN_METERS = (
    'ENGCRS["Undefined Cartesian SRS",EDATUM["Unknown engineering datum"],CS[Cartesian,2],'
    'AXIS["X",unspecified,ORDER[1],LENGTHUNIT["metre",1]],AXIS["Y",unspecified,ORDER[2],LENGTHUNIT["metre",1]]]'
)


@dataclass(frozen=True)
class GridFrame:
    """The coordinates of a grid."""

    crs: str  # as rasterio and pyogrio take it; empty: it is not known
    transform: tuple[float, float, float, float, float, float]  # as in `Georeference`
    shape: tuple[int, int]

    @property
    def is_placed(self) -> bool:
        """Whether the coordinate system is known."""
        return bool(self.crs)

    def locate(self, rows: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coordinates x, y of places in the grid, [N, 2]; the center of a cell is half a cell further."""
        a, b, c, d, e, f = self.transform
        return np.stack((a * columns + b * rows + c, d * columns + e * rows + f), axis=-1)

    def locate_centers(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        """Coordinates x, y of the centers of flat cells, [N, 2]."""
        rows, columns = np.divmod(np.asarray(cells), self.shape[1])
        return self.locate(rows + 0.5, columns + 0.5)


def make_frame(landscape: Landscape) -> GridFrame:
    """The frame of a landscape; one without a place has its origin at its south-west corner, in meters."""
    rows, side = landscape.shape[0], landscape.cell_size
    if landscape.place is None:
        return GridFrame("", (side, 0.0, 0.0, 0.0, -side, rows * side), landscape.shape)
    return GridFrame(landscape.place.crs, landscape.place.transform, landscape.shape)
