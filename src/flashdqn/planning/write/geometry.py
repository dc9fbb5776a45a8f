"""Geometries as well-known binary (OGC 06-103r4), little-endian: lines and polygons."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LINE, POLYGON, MULTIPOLYGON = 2, 3, 6

Ring = NDArray[np.float64]  # [N, 2], closed: the last point is the first


def encode_line(points: NDArray[np.float64]) -> bytes:
    """A line through points."""
    return _encode_head(LINE) + _encode_points(points)


def encode_polygon(rings: Sequence[Ring]) -> bytes:
    """The outer ring, then those of its holes."""
    return _encode_head(POLYGON) + struct.pack("<I", len(rings)) + b"".join(map(_encode_points, rings))


def encode_multipolygon(polygons: Sequence[Sequence[Ring]]) -> bytes:
    """Polygons that belong together."""
    parts = b"".join(map(encode_polygon, polygons))
    return _encode_head(MULTIPOLYGON) + struct.pack("<I", len(polygons)) + parts


def _encode_head(kind: int) -> bytes:
    return struct.pack("<BI", 1, kind)


def _encode_points(points: NDArray[np.float64]) -> bytes:
    return struct.pack("<I", len(points)) + np.ascontiguousarray(points, dtype="<f8").tobytes()
