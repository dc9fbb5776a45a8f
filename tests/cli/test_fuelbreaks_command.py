"""`flashdqn fuelbreaks plan` and `score`, from a landscape's file to the files of a plan."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.warp import transform

import flashdqn.planning
from flashdqn.cli import main as cli
from flashdqn.cli.fuelbreaks_plan import POLICIES, BreakPlanArguments
from flashdqn.envs.fuelbreaks.generate import generate_landscape
from flashdqn.envs.fuelbreaks.geotiff import write_folder
from flashdqn.envs.fuelbreaks.npz import write_npz
from flashdqn.show.work_progress import WorkProgress

QUICK = ("--policies", "random", "dpv-once", "--fires", "20", "--weather", "dry@90")
PLAN_FILES = {
    "breaks.tif", "burn_probability_before.tif", "burn_probability_after.tif", "plan.gpkg", "plan.png", "plan.json",
    "plan.html",
}  # fmt: skip


@pytest.fixture(scope="module")
def land(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lands") / "ridge"
    write_folder(generate_landscape(7, 20), folder)
    return folder


@pytest.fixture(scope="module")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "ridge.npz"
    write_npz(generate_landscape(7, 20), path)
    return path


def call(*words: object) -> int:
    return cli.answer_command(["fuelbreaks", *map(str, words)])


def write_map(path: Path, values: Any) -> Path:
    with rasterio.open(
        path, "w", driver="GTiff", height=20, width=20, count=1, dtype="float32", crs="EPSG:5070",
        transform=rasterio.Affine(30.0, 0.0, 0.0, 0.0, -30.0, 0.0),
    ) as file:  # fmt: skip
        file.write(np.asarray(values, dtype=np.float32), 1)
    return path


def test_a_plan_and_its_score(land: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("plan", land, "--budget", "5%", *QUICK, "--out", tmp_path / "plan") == 0
    said = capsys.readouterr()
    assert "Without breaks, a fire burns" in said.out
    assert "DPV, once" in said.out
    assert str(tmp_path / "plan" / "plan.html") in said.out
    assert said.err.startswith("Reading ")
    assert {path.name for path in (tmp_path / "plan").iterdir()} == PLAN_FILES
    plan = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert len(plan["plan"]["cells"]) == 20
    assert plan["budgets"][-1] == 20
    assert plan["command"].startswith("flashdqn fuelbreaks plan ")
    assert plan["landscape"]["crs"]

    for name in ("plan.gpkg", "breaks.tif"):
        out = tmp_path / f"score-{name}"
        words = ("score", land, tmp_path / "plan" / name, "--fires", 20, "--weather", "dry@90", "--out", out)
        assert call(*words) == 0
        assert "the given plan" in capsys.readouterr().out
        score = json.loads((out / "score.json").read_text())
        assert sorted(score["plan"]["cells"]) == sorted(plan["plan"]["cells"])
        assert score["before"] == plan["before"], "the same seed has the same fires"
        chosen = plan["policies"][plan["chosen"]]["after"][-1]
        assert score["policies"]["given"]["after"] == [chosen]
        assert set(score["policies"]) == {"given", "random"}
        assert (out / "score.html").exists()


def test_maps_change_what_is_planned(land: Path, tmp_path: Path) -> None:
    value = np.zeros((20, 20))
    value[12:15, 4:8] = 2.0
    cost = np.full((20, 20), 2.0)
    forbidden = np.zeros((20, 20))
    forbidden[:, :4] = 1.0
    maps = [
        "--value-map", write_map(tmp_path / "value.tif", value), "--value-unit", "houses",
        "--cost-map", write_map(tmp_path / "cost.tif", cost),
        "--forbidden", write_map(tmp_path / "forbidden.tif", forbidden),
        "--ignition-map", write_map(tmp_path / "ignition.tif", 1.0 - forbidden),
    ]  # fmt: skip
    words = (*QUICK, *maps, "--duration", "90min", "--seed", 3, "--write", "random", "--budgets", "10", "20")
    assert call("plan", land, "--budget", 30, *words, "--out", tmp_path / "plan") == 0
    plan = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert plan["unit"] == "houses"
    assert plan["budgets"] == [10, 20, 30]
    assert plan["duration_minutes"] == 90
    assert plan["chosen"] == "random"
    assert plan["policies"]["random"]["placed"] == [5, 10, 15]
    assert plan["plan"]["cost"] == 30
    assert all(cell % 20 >= 4 for cell in plan["plan"]["cells"])


def test_shapes_without_a_name_and_a_table_of_weather(land: Path, tmp_path: Path) -> None:
    """A GeoJSON file of another program has no name in it."""
    corners = [(0, -300), (600, -300), (600, -600), (0, -600), (0, -300)]
    x, y = transform("EPSG:5070", "EPSG:4326", *zip(*corners, strict=True))
    shape = {"type": "Polygon", "coordinates": [list(map(list, zip(x, y, strict=True)))]}
    feature = {"type": "Feature", "properties": {}, "geometry": shape}
    reserve = tmp_path / "reserve.geojson"
    reserve.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    (tmp_path / "weather.csv").write_text("name,weight,wind_speed,wind_from\nfoehn,3,55,180\nsea,1,15,270\n")
    words = ("--budget", 6, *QUICK[:5], "--scenarios", tmp_path / "weather.csv", "--forbidden", reserve)
    assert call("plan", land, *words, "--out", tmp_path / "plan") == 0
    plan = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert all(cell // 20 < 10 for cell in plan["plan"]["cells"])
    assert [(one["name"], one["weight"]) for one in plan["scenarios"]] == [("foehn", 0.75), ("sea", 0.25)]


def test_a_window_lies_where_it_was_cut(land: Path, tmp_path: Path) -> None:
    words = ("--budget", 4, *QUICK, "--window", "3,5,12,10", "--out", tmp_path)
    assert call("plan", land, *words) == 0
    with rasterio.open(tmp_path / "breaks.tif") as file:
        assert file.shape == (12, 10)
        assert tuple(file.transform)[:6] == (30.0, 0.0, 150.0, 0.0, -30.0, -90.0)


def test_an_npz_file_needs_no_packages_of_a_gis(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, *more: Any) -> Any:
        return None if name in ("rasterio", "pyogrio") else real(name, *more)

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    assert call("plan", npz, "--budget", "2%", *QUICK, "--out", tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"plan.png", "plan.json", "plan.html"}
    said = capsys.readouterr().out
    assert "rasterio and pyogrio are not installed: pip install 'flashdqn[landscapes]'" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["paln"], "did you mean 'plan'?"),
        (["plan"], "LANDSCAPE is missing"),
        (["plan", "--budget", "5%", "LAND"], "LANDSCAPE is missing"),
        (["plan", "LAND"], "--budget is missing"),
        (["plan", "LAND", "--bugdet", "5%"], "did you mean '--budget'?"),
        (["plan", "LAND", "more", "--budget", "5%"], "it takes one landscape"),
        (["plan", "nowhere", "--budget", "5%"], "There is no landscape at nowhere"),
        (["plan", "LAND", "--budget", "0"], "less than one cell"),
        (["plan", "LAND", "--budget", "lots"], "is written as 40ha, 5%, 12km"),
        (["plan", "LAND", "--budget", "900ha"], "lower it"),
        (["plan", "LAND", "--budget", "9", "--budgets", "10"], "more than --budget"),
        (["plan", "LAND", "--budget", "9", "--policies", "agnt"], "did you mean 'agent'?"),
        (["plan", "LAND", "--budget", "9", "--policies"], "--policies needs at least one"),
        (
            ["plan", "LAND", "--budget", "9", "--policies", "random", "--write", "dpv"],
            "--write cannot be 'dpv'",
        ),
        (["plan", "LAND", "--budget", "9", "--window", "1,2"], "ROW,COLUMN,ROWS,COLUMNS"),
        (["plan", "LAND", "--budget", "9", "--window", "9,9,12,4"], "has 20 x 20 cells"),
        (["plan", "LAND", "--budget", "9", "--weather", "foggy"], "A weather is one of"),
        (["plan", "LAND", "--budget", "9", "--weather", "dry", "--scenarios", "x.csv"], "give one of them"),
        (["plan", "LAND", "--budget", "9", "--value-unit", "houses"], "--value-map, which is not given"),
        (["plan", "LAND", "--budget", "9", "--value-map", "no.tif"], "no.tif"),
        (["plan", "LAND", "--budget", "9", "--duration", "soon"], "--duration is written as"),
        (["plan", "LAND", "--budget", "9", "--duration", "4"], "is written as 4h or 90min, and '4' is not"),
        (["plan", "nowhere", "--budget", "lots"], "is written as 40ha, 5%, 12km"),
        (["plan", "nowhere", "--budget", "9", "--budgets", "3", "x"], "is written as 40ha, 5%, 12km"),
        (
            ["plan", "LAND", "--budget", "9", "--policies", "random", "--device", "cpu"],
            "--device is about the agent",
        ),
        (["plan", "LAND", "--budget", "9", "--fires", "1"], "--fires must"),
        (["plan", "LAND", "--budget", "9", "--agent", "no-agent"], "no-agent"),
        (["plan", "LAND", "--budget", "9", "--out", "LAND/elevation.tif"], "cannot be written to"),
        (["score", "LAND"], "BREAKS is missing"),
        (["score", "LAND", "no.gpkg"], "no.gpkg"),
        (["score", "LAND", "plan.doc"], "is not a plan"),
    ],
)
def test_mistakes_are_one_sentence(
    words: Sequence[str], said: str, land: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert call(*(word.replace("LAND", str(land)) for word in words)) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("Reading ")]
    assert len(lines) == 1
    assert lines[0].startswith("flashdqn: ")
    assert said in lines[0]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_ctrl_c_leaves_no_half_files(
    land: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", interrupt)
    assert call("plan", land, "--budget", 4, *QUICK, "--out", tmp_path) == 130
    assert not {path.name for path in tmp_path.iterdir()} - PLAN_FILES
    assert not (tmp_path / "plan.png").exists()


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert "flashdqn fuelbreaks score LANDSCAPE BREAKS" in capsys.readouterr().out
    assert call("plan", "--help") == 0
    said = capsys.readouterr().out
    assert "(default: )" not in said
    assert "(default: None)" not in said
    for field in dataclasses.fields(BreakPlanArguments):
        if field.name != "landscape":
            assert f"--{field.name.replace('_', '-')}" in said


def test_the_command_knows_every_policy_of_the_engine() -> None:
    assert set(POLICIES) == set(flashdqn.planning.POLICIES)


def test_progress_is_a_line_where_nobody_watches_and_a_bar_on_a_terminal() -> None:
    import io

    from rich.console import Console

    for terminal in (False, True):
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=80)
        with WorkProgress(console, "Reading [red]x") as progress:
            progress.tell(0.5, "planning")
            progress.tell(7.0, "more than all")
        assert "Reading [red]x" in text.getvalue() or terminal
        assert ("100%" in text.getvalue()) == terminal
