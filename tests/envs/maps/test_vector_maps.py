"""Points and polygons on a landscape: houses, reserves; other coordinates; hostile files."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from landscape_files import CORNER, CRS, TRANSFORM, make_landscape, rasterio
from rasterio.warp import transform

from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.georeference import Georeference
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.maps.forbidden import read_forbidden
from flashdqn.envs.fuelbreaks.maps.ignition import read_ignition
from flashdqn.envs.fuelbreaks.maps.value import read_value

pyogrio = pytest.importorskip("pyogrio")
shapely = pytest.importorskip("shapely")

SIZE = 12
WKT = rasterio.crs.CRS.from_string(CRS).to_wkt()


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def land() -> Landscape:
    land = make_landscape(SIZE)
    fuels = np.full(land.shape, 102, dtype=np.int16)
    return replace(land, fuel_model=fuels, place=Georeference(WKT, tuple(TRANSFORM)[:6]))


def point(row: float, column: float) -> Any:
    """The point at a row and column of the landscape; 0.5 is the middle of the first cell."""
    return shapely.Point(CORNER[0] + 30.0 * column, CORNER[1] - 30.0 * row)


def square(row: float, column: float, high: float, wide: float) -> Any:
    """A rectangle from a row and column on."""
    west, north = CORNER[0] + 30.0 * column, CORNER[1] - 30.0 * row
    return shapely.box(west, north - 30.0 * high, west + 30.0 * wide, north)


def write_shapes(
    path: Path, shapes: list[Any], numbers: list[Any] | None = None, crs: str | None = CRS, **options: Any
) -> Path:
    """A file of shapes with an attribute `people`."""
    drivers = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".shp": "ESRI Shapefile"}
    pyogrio.raw.write(
        str(path),
        geometry=np.array([shapely.to_wkb(shape) for shape in shapes], dtype=object),
        field_data=[np.array(numbers if numbers is not None else [1.0] * len(shapes))],
        fields=np.array(["people"]),
        geometry_type=options.pop("geometry_type", shapes[0].geom_type),
        crs=crs,
        driver=drivers[path.suffix],
        **options,
    )
    return path


@pytest.mark.parametrize("ending", [".gpkg", ".shp"])
def test_houses_as_points(ending: str, land: Landscape, tmp_path: Path, notes: list[str]) -> None:
    shapes = [point(0.5, 0.5), point(3.1, 4.9), point(3.9, 4.1), point(20.0, 3.0)]
    path = write_shapes(tmp_path / f"houses{ending}", shapes, [2.0, 3.0, 4.5, 9.0])
    counted = read_value(path, land, tell=notes.append)
    assert (counted[0, 0], counted[3, 4], counted.sum()) == (1.0, 2.0, 3.0)
    people = read_value(path, land, "people", tell=notes.append)
    assert (people[0, 0], people[3, 4], people.sum()) == (2.0, 7.5, 9.5)
    assert notes[0] == f"{path}: 1 of 4 shapes lie outside the landscape, and are left out."
    assert read_ignition(path, land, tell=notes.append)[3, 4] == 2.0


def test_longitudes_and_latitudes(land: Landscape, tmp_path: Path, notes: list[str]) -> None:
    inside = [point(row + 0.5, column + 0.5) for row, column in ((0, 0), (5, 7), (11, 11))]
    (xs, ys) = transform(CRS, "EPSG:4326", [p.x for p in inside], [p.y for p in inside])
    shapes = [shapely.Point(x, y) for x, y in zip(xs, ys, strict=True)]
    path = write_shapes(tmp_path / "houses.geojson", shapes, crs="EPSG:4326", COORDINATE_PRECISION=9)
    found = read_value(path, land, tell=notes.append)
    np.testing.assert_array_equal(np.argwhere(found), [(0, 0), (5, 7), (11, 11)])
    assert notes == []


def test_polygons_are_shared_out(land: Landscape, tmp_path: Path) -> None:
    shapes = [square(2, 3, 2, 3), square(8.1, 8.1, 0.2, 0.2), square(5, 10, 2, 4)]
    path = write_shapes(tmp_path / "farms.gpkg", shapes, [12.0, 5.0, 8.0])
    found = read_value(path, land, "people")
    np.testing.assert_allclose(found[2:4, 3:6], 2.0)
    assert found[8, 8] == 5.0, "one that is smaller than a cell"
    np.testing.assert_allclose(found[5:7, 10:12], 1.0)  # the other half lies outside
    assert found.sum() == pytest.approx(12.0 + 5.0 + 4.0)


def test_reserves_forbid_every_cell_that_they_touch(land: Landscape, tmp_path: Path) -> None:
    path = write_shapes(tmp_path / "reserve.gpkg", [square(2.5, 3.5, 2, 3), square(10, 0, 9, 1)])
    found = read_forbidden(path, land)
    expected = np.zeros((SIZE, SIZE), dtype=bool)
    expected[2:5, 3:7] = True
    np.testing.assert_array_equal(found[:8], expected[:8])
    assert found[10:, 0].all()
    assert not found[9:, 3:].any()


def test_several_layers(land: Landscape, tmp_path: Path) -> None:
    path = write_shapes(tmp_path / "all.gpkg", [point(1.5, 1.5)], layer="houses")
    write_shapes(path, [square(4, 4, 2, 2)], layer="reserves", append=True)
    with pytest.raises(EnvError, match=r"all.gpkg must have one layer, and has houses, reserves"):
        read_value(path, land)
    assert read_value(path, land, layer="houses")[1, 1] == 1.0
    assert read_forbidden(path, land, layer="reserves")[4, 4]
    with pytest.raises(EnvError, match=r"must have the layer 'barns', and has houses, reserves"):
        read_value(path, land, layer="barns")


def test_what_is_wrong_with_shapes(land: Landscape, tmp_path: Path) -> None:
    far = write_shapes(tmp_path / "far.gpkg", [point(100, 100)])
    with pytest.raises(EnvError, match=r"far.gpkg: none of its 1 shapes lies on the landscape"):
        read_value(far, land)
    with pytest.raises(EnvError, match=r"far.gpkg does not touch the landscape"):
        read_forbidden(far, land)
    lines = write_shapes(tmp_path / "lines.gpkg", [shapely.LineString([(0, 0), (1, 1)])])
    with pytest.raises(EnvError, match=r"lines.gpkg holds a LineString: give points or polygons"):
        read_value(lines, land)
    path = write_shapes(tmp_path / "a.gpkg", [point(1, 1), point(2, 2)], [1.0, -3.0])
    with pytest.raises(EnvError, match=r"'people' must hold numbers from 0 up, and holds -3 in shape 2"):
        read_value(path, land, "people")
    with pytest.raises(EnvError, match=r"a.gpkg lacks the attribute 'houses': it has people"):
        read_value(path, land, "houses")
    path = write_shapes(tmp_path / "b.gpkg", [point(1, 1)], ["many"])
    with pytest.raises(EnvError, match=r"'people' must hold numbers, and holds texts"):
        read_value(path, land, "people")


@pytest.mark.filterwarnings("ignore:'crs' was not provided")
def test_coordinates_that_nobody_knows(land: Landscape, tmp_path: Path) -> None:
    path = write_shapes(tmp_path / "a.shp", [point(1, 1)], crs=None)
    with pytest.raises(EnvError, match=r"a.shp does not say its coordinate system"):
        read_value(path, land)
    nowhere = replace(land, place=Georeference("", tuple(TRANSFORM)[:6]))
    path = write_shapes(tmp_path / "b.gpkg", [point(1, 1)])
    with pytest.raises(
        EnvError, match=r"does not say its coordinate system, so b.gpkg cannot be laid onto it"
    ):
        read_value(path, nowhere)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gpkg", b"<OGRVRTDataSource><OGRVRTLayer name='x'/></OGRVRTDataSource>"),
        ("a.gpkg", b"SQLite format 3\0" + bytes(200)),
        ("a.geojson", b"<OGRVRTDataSource/>"),
        ("a.geojson", b'{"type": "Topology", "objects": {}}'),
        ("a.geojson", b'{"type": "FeatureCollection", "features": "x"}'),
        ("a.geojson", b"[" * 100_000),
        ("a.shp", b"PK\x03\x04" + bytes(100)),
        ("a.shp", b"\0\0\x27\x0a" + bytes(40)),
        ("a.gpkg", b""),
    ],
)
def test_only_what_the_name_says(name: str, content: bytes, land: Landscape, tmp_path: Path) -> None:
    """GDAL has drivers that open other files and addresses; a name must not lead to them."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EnvError, match=rf"{name}"):
        read_value(tmp_path / name, land)


def test_databases_that_are_not_plain(land: Landscape, tmp_path: Path) -> None:
    path = tmp_path / "a.gpkg"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE t (x)")
    base.close()
    with pytest.raises(EnvError, match=r"a.gpkg is a database, but not a GeoPackage"):
        read_value(path, land)
    path = write_shapes(tmp_path / "b.gpkg", [point(1.5, 1.5)])
    with sqlite3.connect(path) as base:
        base.execute("PRAGMA writable_schema = ON")
        sql = "CREATE VIRTUAL TABLE v USING VirtualOGR('/etc/passwd')"
        base.execute("INSERT INTO sqlite_master VALUES ('table', 'v', 'v', 0, ?)", (sql,))
    base.close()
    with pytest.raises(EnvError, match=r"b.gpkg has a virtual table, which is not read"):
        read_value(path, land)


def test_a_file_that_is_open_elsewhere(land: Landscape, tmp_path: Path) -> None:
    path = write_shapes(tmp_path / "a.gpkg", [point(1.5, 1.5)])
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode = WAL")
    base.close()
    with pytest.raises(EnvError, match=r"a.gpkg is still open in another program"):
        read_value(path, land)


def test_without_the_libraries_there_is_a_sentence(
    land: Landscape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_shapes(tmp_path / "a.gpkg", [point(1.5, 1.5)])
    monkeypatch.setitem(__import__("sys").modules, "pyogrio", None)
    with pytest.raises(EnvError, match=r"flashdqn\[landscapes\]"):
        read_value(path, land)


def test_a_shape_that_crosses_itself(land: Landscape, tmp_path: Path) -> None:
    west, north = CORNER
    bow_tie = shapely.Polygon(
        [
            (west + 30, north - 30),
            (west + 120, north - 120),
            (west + 120, north - 30),
            (west + 30, north - 120),
        ]
    )
    path = tmp_path / "a.geojson"
    write_shapes(path, [bow_tie], [6.0])
    json.loads(path.read_text())
    assert read_value(path, land, "people").sum() == pytest.approx(6.0)
