"""Cell2Fire's `Weather.csv`: a line for every hour of a fire's weather.

Our fires burn in one weather from beginning to end. So every different line becomes a scenario of its own,
weighted by the number of lines that are alike.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs.fuelbreaks.fire.weather import DRY, Weather
from flashdqn.envs.fuelbreaks.read.csv_table import TableRow, read_table
from flashdqn.envs.fuelbreaks.read.notes import TellNote

SPEED, FROM, SCENARIO = "WS", "WD", "FireScenario"
#: A column that only the weather for the Canadian FBP system has.
CANADIAN = "FWI"
#: Scott & Burgan's moisture scenarios D1L1 to D4L4, by Cell2Fire's number: dead 1 h, 10 h and 100 h, live herbs,
#: live wood.
MOISTURES = {
    1: (0.03, 0.04, 0.05, 0.30, 0.60),
    2: (0.06, 0.07, 0.08, 0.60, 0.90),
    3: (0.09, 0.10, 0.11, 0.90, 1.20),
    4: (0.12, 0.13, 0.14, 1.20, 1.50),
}
#: Cell2Fire's columns of moistures in percent.
PERCENT_COLUMNS = {
    "m_1h": "dead_1h",
    "m_10h": "dead_10h",
    "m_100h": "dead_100h",
    "m_lherb": "live_herbaceous",
    "m_lwoody": "live_woody",
}


def is_cell2fire_weather(header: str) -> bool:
    """Whether a table's header is that of Cell2Fire's weather."""
    names = {word.strip(' "\r\n\ufeff') for word in header.replace(";", ",").split(",")}
    return "datetime" in names or {SPEED, FROM} <= names


def find_weather_files(folder: Path, tell: TellNote) -> list[Path]:
    """The weather of a Cell2Fire folder: `Weather.csv`, or all files in `Weathers`."""
    single, many = folder / "Weather.csv", folder / "Weathers"
    if single.exists():
        if many.is_dir():
            tell(f"{folder}: Weather.csv is read, and the folder Weathers is not.")
        return [single]
    files = sorted(many.glob("Weather*.csv")) if many.is_dir() else []
    if not files:
        raise EnvError(f"{folder} has no Weather.csv, and no folder Weathers with such files.")
    return files


def read_weather_rows(paths: Sequence[Path], tell: TellNote) -> list[tuple[str, Weather, float | None]]:
    """Name, weather and number of lines of every different weather, in the order of the files."""
    counts: Counter[Weather] = Counter()
    canadian, moist = False, True
    for path in paths:
        for row in read_table(path, (SPEED, FROM)):
            counts[read_weather(row)] += 1
            canadian, moist = canadian or CANADIAN in row.cells, moist and has_moistures(row)
    if canadian:
        tell(
            f"{paths[0]} is weather for the Canadian FBP system: {FROM} is taken as where the wind blows from."
        )
    if not moist:
        tell(
            f"{paths[0]} does not say how moist the fuel is: taken as on a dry summer day (6 % in dead grass)."
        )
    if not counts:
        raise EnvError(f"{paths[0]} does not have a line of weather.")
    return [(name_weather(weather), weather, float(count)) for weather, count in counts.items()]


def has_moistures(row: TableRow) -> bool:
    """Whether a line says how moist the fuel is."""
    return SCENARIO in row.cells or set(PERCENT_COLUMNS) <= set(row.cells)


def read_weather(row: TableRow) -> Weather:
    """The weather of a line; wind in km/h, and where it blows from."""
    changes = {"wind_speed": row.read_number(SPEED), "wind_from": row.read_number(FROM)}
    for column, field in PERCENT_COLUMNS.items():
        if column in row.cells:
            changes[field] = row.read_number(column) / 100.0
    if SCENARIO in row.cells:
        number = row.read_number(SCENARIO)
        if number not in MOISTURES:
            raise EnvError(
                f"In {row.path}, line {row.line}, {SCENARIO} must be 1, 2, 3 or 4, and is {number:g}."
            )
        changes |= dict(zip(PERCENT_COLUMNS.values(), MOISTURES[int(number)], strict=True))
    try:
        return dataclasses.replace(DRY, **changes)
    except ConfigError as error:
        raise EnvError(f"In {row.path}, line {row.line}: {error}") from None


def name_weather(weather: Weather) -> str:
    """Wind and dryness in a few signs: `26 km/h from 321, 3 %`."""
    return f"{weather.wind_speed:g} km/h from {weather.wind_from:g}, {100 * weather.dead_1h:g} %"
