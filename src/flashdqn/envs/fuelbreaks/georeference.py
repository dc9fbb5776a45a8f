"""Where a raster lies on the map."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Georeference:
    """A coordinate system, and the affine map from columns and rows to its coordinates."""

    crs: str
    """The coordinate system as well-known text (WKT), or as a name such as EPSG:5070; empty if unknown."""
    transform: tuple[float, float, float, float, float, float]
    """a, b, c, d, e, f of rasterio's `Affine`: x = a · column + b · row + c, y = d · column + e · row + f, at the
    north-west corner of a cell."""

    def move_corner(self, row: int, column: int) -> Georeference:
        """The place of a window whose north-west corner is that of a cell."""
        a, b, c, d, e, f = self.transform
        corner = (a * column + b * row + c, d * column + e * row + f)
        return Georeference(self.crs, (a, b, corner[0], d, e, corner[1]))
