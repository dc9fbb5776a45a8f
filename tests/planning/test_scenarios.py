"""Weather scenarios: texts, CSV, TOML, Cell2Fire's weather; weights; and what is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from flashdqn.core.errors import ConfigError, EnvError, FlashDQNError
from flashdqn.envs.fuelbreaks.fire.weather import DRY, EXTREME, Weather
from flashdqn.planning.scenarios import parse_scenarios, read_scenarios


def ignore(text: str) -> None:
    """Notes that a test does not look at."""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_texts() -> None:
    one, two = parse_scenarios(["dry@90=0.3", "extreme@225/60=0.9"])
    assert (one.name, one.weather, one.weight) == ("dry@90", dataclasses.replace(DRY, wind_from=90.0), 0.25)
    assert two.weather == dataclasses.replace(EXTREME, wind_from=225.0, wind_speed=60.0)
    assert [scenario.weight for scenario in parse_scenarios(["dry", "mild"])] == [0.5, 0.5]
    assert [scenario.name for scenario in parse_scenarios(["dry", "dry"])] == ["dry", "dry (2)"]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["dry=x"], "weight is a number, as in dry@90=0.3"),
        (["dry=1", "mild"], "either all scenarios have a weight, or none; 'mild' has none"),
        (["dry=-1"], "weight of 'dry' must be a number from 0 up, and is -1"),
        (["dry=nan"], "weight of 'dry' must be a number"),
        (["dry=0"], "all weights are 0"),
        (["wet=1"], "A weather is one of mild, dry, extreme"),
        ([], "must have 1 to 1000 weather scenarios: it has 0"),
    ],
)
def test_bad_texts(texts: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_scenarios(texts)


def test_a_table(tmp_path: Path) -> None:
    text = (
        "name,weight,wind_speed,wind_from,dead_1h,dead_10h,dead_100h,live_herbaceous,live_woody,foliar\n"
        "foehn,3,55,180,3,4,5 %,30,60,90\n"
        "sea,1,15.5,270,0.08,0.09,0.1,0.6,3.5,110%\n"
    )
    foehn, sea = read_scenarios(write(tmp_path / "w.csv", text))
    assert (foehn.name, foehn.weight) == ("foehn", 0.75)
    assert foehn.weather == Weather(55.0, 180.0, 0.03, 0.04, 0.05, 0.30, 0.60, 0.90)
    assert sea.weather == Weather(15.5, 270.0, 0.08, 0.09, 0.10, 0.60, 3.5, 1.10)
    semicolons = read_scenarios(write(tmp_path / "s.csv", "\ufeff" + text.replace(",", ";")))
    assert semicolons == (foehn, sea)


def test_what_a_table_leaves_out(tmp_path: Path) -> None:
    text = "weather,wind_from,dead_1h\nextreme,90,\nmild@10/5,,0.2\n"
    one, two = read_scenarios(write(tmp_path / "w.csv", text))
    assert (one.name, one.weight) == ("extreme", 0.5)
    assert one.weather == dataclasses.replace(EXTREME, wind_from=90.0)
    assert (two.weather.wind_speed, two.weather.wind_from, two.weather.dead_1h) == (5.0, 10.0, 0.2)
    (windy,) = read_scenarios(write(tmp_path / "x.csv", "wind_speed,wind_from\n30,45\n"))
    assert windy.weather == dataclasses.replace(DRY, wind_speed=30.0, wind_from=45.0)
    assert windy.name == "line 2"


def test_toml(tmp_path: Path) -> None:
    text = """
        [[scenario]]
        name = "foehn"
        weight = 0.6
        wind_speed = 55
        wind_from = 180
        dead_1h = "3 %"
        [[scenario]]
        weather = "mild@90"
        weight = 0.4
    """
    one, two = read_scenarios(write(tmp_path / "w.toml", text))
    assert one.weather == dataclasses.replace(DRY, wind_speed=55.0, wind_from=180.0, dead_1h=0.03)
    assert (one.weight, two.weight, two.name) == (0.6, 0.4, "mild@90")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("w.csv", "name,wind_speed\na,3\n", r"w.csv, line 2 lacks wind_speed .km/h. and wind_from"),
        (
            "w.csv",
            "wind_speed,wind_form\n3,4\n",
            r"w.csv, line 2 has an unknown column 'wind_form'.*wind_from",
        ),
        (
            "w.csv",
            "wind_speed,wind_from\n3,north\n",
            r"w.csv, line 2: wind_from must be a number, and is 'north'",
        ),
        (
            "w.csv",
            "wind_speed,wind_from\n300,0\n",
            r"w.csv, line 2: The weather's wind_speed must be .* 0 to 150",
        ),
        ("w.csv", "wind_speed,wind_from\n3,0\n3\n", r"w.csv, line 3 has 1 columns"),
        ("w.csv", "wind_speed,wind_from\n", "it has 0"),
        ("w.csv", "", "must have a header"),
        ("w.csv", "weather\nwet\n", "A weather is one of"),
        ("w.toml", "a = [", "w.toml cannot be read as TOML"),
        ("w.toml", "scenario = 3", r"must have a table \[\[scenario\]\]"),
        (
            "w.toml",
            "[[scenario]]\nwind_speed = true\nwind_from = 3",
            "scenario 1: wind_speed must be a number",
        ),
        ("w.txt", "", r"w.txt is not a file of weather scenarios: give a .csv or .toml"),
    ],
)
def test_bad_files(name: str, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(FlashDQNError, match=said):
        read_scenarios(write(tmp_path / name, text), ignore)


# ---- Cell2Fire

HOURS = "Instance,datetime,WS,WD,FireScenario\n"


def test_equal_hours_are_one_scenario(tmp_path: Path) -> None:
    text = HOURS + "a,13:00,26,321.0,1\na,14:00,26,321.0,1\na,15:00,12,350.0,2\n\na,16:00,26,321.0,1\n"
    windy, calm = read_scenarios(write(tmp_path / "Weather.csv", text))
    assert windy.weather == Weather(26.0, 321.0, 0.03, 0.04, 0.05, 0.30, 0.60, DRY.foliar)
    assert calm.weather == Weather(12.0, 350.0, 0.06, 0.07, 0.08, 0.60, 0.90, DRY.foliar)
    assert (windy.weight, calm.weight) == (0.75, 0.25)
    assert windy.name == "26 km/h from 321, 3 %"


def test_moistures_in_percent_or_none(tmp_path: Path) -> None:
    direct = "Instance,datetime,WS,WD,m_1h,m_10h,m_100h,m_lherb,m_lwoody\nk,1,26,321,4,5,6,40,70\n"
    notes: list[str] = []
    (found,) = read_scenarios(write(tmp_path / "a.csv", direct), notes.append)
    assert found.weather == Weather(26.0, 321.0, 0.04, 0.05, 0.06, 0.40, 0.70, DRY.foliar)
    assert notes == []
    (found,) = read_scenarios(
        write(tmp_path / "b.csv", "Instance,datetime,WS,WD\nk,1,18,270\n"), notes.append
    )
    assert found.weather == dataclasses.replace(DRY, wind_speed=18.0, wind_from=270.0)
    assert "does not say how moist the fuel is" in notes[0]
    canadian = (
        "Scenario,datetime,APCP,TMP,RH,WS,WD,FFMC,DMC,DC,ISI,BUI,FWI\nJ,1,0,17,20,21,235,90,64,535,13,99,37\n"
    )
    (found,) = read_scenarios(write(tmp_path / "c.csv", canadian), notes.append)
    assert (found.weather.wind_speed, found.weather.wind_from) == (21.0, 235.0)
    assert "Canadian FBP" in notes[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Instance,datetime,WS\na,1,3\n", r"Weather.csv lacks the column WD: it has Instance, datetime, WS"),
        (HOURS + "a,1,fast,3,1\n", r"Weather.csv, line 2, WS must be a number, and is 'fast'"),
        (HOURS + "a,1,3,3,7\n", r"Weather.csv, line 2, FireScenario must be 1, 2, 3 or 4, and is 7"),
        (HOURS + "a,1,3,3,EWE\n", r"Weather.csv, line 2, FireScenario must be a number"),
        (HOURS + "a,1,3,-40,1\n", r"Weather.csv, line 2: The weather's wind_from"),
        (HOURS, "does not have a line of weather"),
    ],
)
def test_bad_weather(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(EnvError, match=said):
        read_scenarios(write(tmp_path / "Weather.csv", text), ignore)


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(EnvError, match=r"has no Weather.csv, and no folder Weathers"):
        read_scenarios(tmp_path)
    (tmp_path / "Weathers").mkdir()
    write(tmp_path / "Weathers" / "Weather1.csv", HOURS + "a,1,10,0,1\n")
    write(tmp_path / "Weathers" / "Weather2.csv", HOURS + "a,1,20,0,1\na,2,20,0,1\na,2,10,0,1\n")
    assert [scenario.weight for scenario in read_scenarios(tmp_path, ignore)] == [0.5, 0.5]
    write(tmp_path / "Weather.csv", HOURS + "a,1,30,0,1\n")
    notes: list[str] = []
    (only,) = read_scenarios(tmp_path, notes.append)
    assert only.weather.wind_speed == 30.0
    assert "the folder Weathers is not" in notes[0]
