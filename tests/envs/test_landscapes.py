"""Landscapes: generated, written, read, cropped; and every way in which rasters can be wrong, in a sentence."""

from __future__ import annotations

import builtins
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashdqn.cli import main as cli
from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.collection import collect_landscapes
from flashdqn.envs.fuelbreaks.generate import COUNTRIES, generate_landscape
from flashdqn.envs.fuelbreaks.geotiff import write_folder
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape, slope_and_aspect
from flashdqn.envs.fuelbreaks.npz import write_npz
from flashdqn.envs.fuelbreaks.pictures import make_figure
from flashdqn.envs.fuelbreaks.rasters import find_landscapes, read_landscape
from flashdqn.envs.fuelbreaks.read.layer_names import match_layer_name

rasterio = pytest.importorskip("rasterio")


def rewrite(path: Path, values: Any = None, **changes: Any) -> None:
    """Write a GeoTIFF again with other values or another grid."""
    with rasterio.open(path) as file:
        profile, before = file.profile, file.read(1)
    values = before if values is None else values
    profile |= {"height": values.shape[0], "width": values.shape[1]} | changes
    path.unlink()
    with rasterio.open(path, "w", **profile) as file:
        file.write(values.astype(profile["dtype"]), 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Real-format rasters: 30 x 30 cells."""
    write_folder(generate_landscape(3, 30), tmp_path / "ridge")
    return tmp_path / "ridge"


def test_a_seed_is_a_landscape_and_seeds_differ() -> None:
    lands = [generate_landscape(seed, 24) for seed in range(12)]
    assert lands == [generate_landscape(seed, 24) for seed in range(12)]
    assert len(set(lands)) == 12
    assert {land.name.split()[0] for land in lands} >= {"mixed", "grassland"}
    for land in lands:
        trees = land.canopy_cover > 0
        assert land.burnable.mean() > 0.4
        assert not trees[~land.burnable].any(), "nothing grows on water and roads"
        assert (land.canopy_height[trees] > 0).all()
        assert (land.canopy_base_height <= land.canopy_height).all()
    assert len(COUNTRIES) == 4


def test_a_landscape_cannot_be_changed() -> None:
    land = generate_landscape(0, 10)
    for layer in LAYERS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(land, layer)[0, 0] = 1
    mine = land.elevation.copy()
    other = replace(land, elevation=mine)
    mine += 100
    assert other == land, "what was given is copied"


def test_slopes_face_downhill() -> None:
    rows, columns = np.mgrid[0:5, 0:5]
    for heights, aspect in ((-columns, 90.0), (columns, 270.0), (-rows, 180.0), (rows, 0.0)):
        slope, facing = slope_and_aspect(30.0 * heights, 30.0)
        np.testing.assert_allclose(slope, 45.0, rtol=1e-6)
        np.testing.assert_allclose(facing, aspect, atol=1e-4)
    assert not slope_and_aspect(np.zeros((4, 4)), 30.0)[1].any()


def test_rasters_come_back_as_they_were(folder: Path, tmp_path: Path) -> None:
    land = generate_landscape(3, 30)
    assert read_landscape(folder) == land
    write_npz(land, tmp_path / "ridge.npz")
    assert read_landscape(tmp_path / "ridge.npz") == land


def test_units_are_landfires(folder: Path) -> None:
    land = read_landscape(folder)
    for layer, scale in (("canopy_cover", 100), ("canopy_base_height", 10), ("canopy_bulk_density", 100)):
        with rasterio.open(folder / f"{layer}.tif") as file:
            np.testing.assert_allclose(file.read(1) / scale, getattr(land, layer), atol=1e-6)
    flat = np.full((30, 30), -1)
    rewrite(folder / "aspect.tif", flat)
    assert not read_landscape(folder).aspect.any(), "-1 is flat ground"


def test_names_are_landfires() -> None:
    names = {
        "LC22_CBH_220": "canopy_base_height",
        "LF2020_Elev_220_CONUS": "elevation",
        "LC20_SlpD_220": "slope",
        "LC22_F40_230": "fuel_model",
        "us_140FBFM13": "fuel_model",
        "canopy base height": "canopy_base_height",
        "canopy_height": "canopy_height",
    }
    assert {name: match_layer_name(name) for name in names} == names


def test_one_file_with_eight_bands_will_do(folder: Path, tmp_path: Path) -> None:
    profile, bands = {}, []
    for layer in LAYERS:
        with rasterio.open(folder / f"{layer}.tif") as file:
            profile, bands = file.profile, [*bands, file.read(1)]
    (tmp_path / "stack").mkdir()
    with rasterio.open(tmp_path / "stack" / "lf.tif", "w", **(profile | {"count": 8})) as file:
        for number, (layer, band) in enumerate(zip(LAYERS, bands, strict=True), start=1):
            file.write(band, number)
            file.set_band_description(number, layer)
    assert read_landscape(tmp_path / "stack") == read_landscape(folder)


def test_a_missing_layer(folder: Path) -> None:
    (folder / "canopy_base_height.tif").unlink()
    with pytest.raises(EnvError, match=r"lacks canopy_base_height .a file with 'cbh' in its name"):
        read_landscape(folder)


def test_layers_that_do_not_match(folder: Path) -> None:
    with rasterio.open(folder / "slope.tif") as file:
        slope = file.read(1)
    rewrite(folder / "slope.tif", slope[:20])
    with pytest.raises(
        EnvError, match=r"do not match: the shape of aspect is \(30, 30\).*slope is \(20, 30\)"
    ):
        read_landscape(folder)
    rewrite(folder / "slope.tif", slope, crs="EPSG:3857")
    with pytest.raises(EnvError, match="the crs of aspect is EPSG:5070"):
        read_landscape(folder)
    rewrite(folder / "slope.tif", slope, transform=rasterio.Affine(90.0, 0, 0, 0, -90.0, 0), crs="EPSG:5070")
    with pytest.raises(EnvError, match=r"the cell size of aspect is 30.0, and that of slope is 90.0"):
        read_landscape(folder)


def test_bad_numbers(folder: Path) -> None:
    fuel = np.full((30, 30), 102)
    fuel[4, 7] = 150
    rewrite(folder / "fuel_model.tif", fuel)
    with pytest.raises(EnvError, match=r"fuel model 150 .first in row 4, column 7"):
        read_landscape(folder)
    fuel[4, 7] = -9999
    rewrite(folder / "fuel_model.tif", fuel)
    with pytest.raises(EnvError, match=r"fuel_model.tif has no data in 1 cell .first in row 4, column 7"):
        read_landscape(folder)
    fuel[4, 7] = 102
    rewrite(folder / "fuel_model.tif", fuel)
    rewrite(folder / "canopy_cover.tif", np.full((30, 30), 120))
    with pytest.raises(EnvError, match=r"canopy_cover must lie in 0 … 1, and is 1.2"):
        read_landscape(folder)


def test_a_layer_twice_and_no_raster_at_all(folder: Path, tmp_path: Path) -> None:
    (folder / "LC22_CC_220.tif").write_bytes((folder / "canopy_cover.tif").read_bytes())
    with pytest.raises(EnvError, match="canopy_cover twice"):
        read_landscape(folder)
    (folder / "LC22_CC_220.tif").write_bytes(b"no raster")
    with pytest.raises(EnvError, match="cannot be read as a GeoTIFF"):
        read_landscape(folder)
    with pytest.raises(EnvError, match="no landscape in"):
        find_landscapes(tmp_path / "nowhere")


def test_without_rasterio_there_is_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rasterio", None)
    with pytest.raises(EnvError, match=r"flashdqn\[landscapes\]"):
        read_landscape(folder)


def test_windows_of_rasters(folder: Path) -> None:
    whole = read_landscape(folder)
    config = FuelBreaksConfig(size=12, rasters=str(folder), landscapes=3, held_out=2, fires=2, budget=3)
    lands, learn = collect_landscapes(config)
    assert (len(lands), learn) == (5, 3)
    assert lands == collect_landscapes(config)[0]
    assert lands != collect_landscapes(replace(config, landscape_seed=1))[0]
    for land in lands:
        row, column = map(int, land.name.split("@")[1].split(","))
        assert land == whole.window(row, column, 12)
    middle, _ = collect_landscapes(replace(config, crop="centre", held_out=0))
    assert middle == [whole.window(9, 9, 12)]
    assert FuelBreaks(config, 2).scenes.landscapes == tuple(lands)


def test_rasters_that_do_not_fit_the_grid(folder: Path) -> None:
    with pytest.raises(EnvError, match=r"30 x 30 cells, fewer than env.size 50"):
        collect_landscapes(FuelBreaksConfig(rasters=str(folder)))
    rewrite(folder / "fuel_model.tif", np.full((30, 30), 98))
    with pytest.raises(EnvError, match="nothing to protect"):
        collect_landscapes(FuelBreaksConfig(size=12, rasters=str(folder)))
    other = generate_landscape(1, 30, cell_size=90.0)
    write_npz(other, folder.parent / "coarse.npz")
    with pytest.raises(EnvError, match="cells of one size"):
        collect_landscapes(FuelBreaksConfig(size=12, rasters=str(folder.parent)))


def test_layers_of_different_shapes_are_no_landscape() -> None:
    land = generate_landscape(0, 8)
    layers = land.layers() | {"slope": np.zeros((3, 3))}
    with pytest.raises(EnvError, match=r"slope is \[3, 3\]"):
        Landscape(**layers)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "made")
    assert cli.dispatch_command(["landscapes", "make", place, "--count", "2", "--size", "12"]) == 0
    assert (
        cli.dispatch_command(["landscapes", "make", place, "--seed", "9", "--size", "12", "--format", "npz"])
        == 0
    )
    assert len(find_landscapes(Path(place))) == 3
    assert cli.dispatch_command(["landscapes", "check", place]) == 0
    assert "fine" in capsys.readouterr().out
    broken = next(path for path in find_landscapes(Path(place)) if path.is_dir())
    (broken / "slope.tif").unlink()
    assert cli.dispatch_command(["landscapes", "check", place]) == 1
    assert "lacks slope" in capsys.readouterr().out
    picture = tmp_path / "land.png"
    assert (
        cli.dispatch_command(["landscapes", "show", "--seed", "2", "--size", "12", "--out", str(picture)])
        == 0
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "fuel models" in capsys.readouterr().out


def test_ctrl_c_waits_until_the_drawing_library_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of its compiled code can abort Python when it ends."""
    real = builtins.__import__
    imported: list[str] = []

    def import_slowly(name: str, *more: Any, **words: Any) -> Any:
        if name == "matplotlib.backends.backend_agg":
            signal.raise_signal(signal.SIGINT)
        found = real(name, *more, **words)
        imported.append(name)
        return found

    monkeypatch.setattr(builtins, "__import__", import_slowly)
    with pytest.raises(KeyboardInterrupt):
        make_figure(1, 1, 2.0, 2.0)
    assert "matplotlib.figure" in imported
