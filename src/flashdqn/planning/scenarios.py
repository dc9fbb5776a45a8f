"""Kinds of weather with their weights: from texts such as `dry@90=0.3`, from CSV or TOML files, from Cell2Fire."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.ranges import describe_value
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.envs.fuelbreaks.config import parse_weather
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.read.csv_table import read_table, read_table_text
from flashdqn.envs.fuelbreaks.read.notes import TellNote, log_note
from flashdqn.planning.cell2fire_weather import find_weather_files, is_cell2fire_weather, read_weather_rows
from flashdqn.planning.problem import Scenario

#: The most scenarios of a problem: each needs its own table of fire spread.
MOST_SCENARIOS = 1000
#: A plain number from here up is percent: dead fuel never holds its own weight of water, live fuel up to four
#: times.
DEAD_PERCENT, LIVE_PERCENT = 1.0, 4.0
FIELDS = tuple(field.name for field in dataclasses.fields(Weather))
COLUMNS = ("name", "weight", "weather", *FIELDS)


def read_scenarios(path: Path, tell: TellNote = log_note) -> tuple[Scenario, ...]:
    """The scenarios of a .csv or .toml file, a Cell2Fire `Weather.csv`, or a Cell2Fire folder; weights sum to 1."""
    if path.is_dir():
        rows = read_weather_rows(find_weather_files(path, tell), tell)
    elif path.suffix.lower() == ".toml":
        rows = [
            read_entry(f"{path}, scenario {number}", entry) for number, entry in enumerate(read_toml(path), 1)
        ]
    elif path.suffix.lower() == ".csv":
        rows = read_csv_rows(path, tell)
    else:
        raise EnvError(f"{path} is not a file of weather scenarios: give a .csv or .toml file.")
    return weigh_scenarios(str(path), rows)


def parse_scenarios(texts: Sequence[str]) -> tuple[Scenario, ...]:
    """Scenarios from texts: a weather as `dry`, `dry@90` or `extreme@225/60`, and its weight as in `dry@90=0.3`."""
    rows = []
    for text in texts:
        words, mark, weight = text.partition("=")
        rows.append((words.strip(), parse_weather(words), parse_weight(text, weight) if mark else None))
    return weigh_scenarios("The weathers", rows)


def parse_weight(text: str, weight: str) -> float:
    """The number after the sign."""
    try:
        return float(weight)
    except ValueError:
        raise ConfigError(
            f"A weight is a number, as in dry@90=0.3, and that of {describe_value(text)} is not."
        ) from None


def weigh_scenarios(source: str, rows: Sequence[tuple[str, Weather, float | None]]) -> tuple[Scenario, ...]:
    """Scenarios whose weights sum to 1; all alike if no weight is given."""
    if not 1 <= len(rows) <= MOST_SCENARIOS:
        raise ConfigError(f"{source} must have 1 to {MOST_SCENARIOS} weather scenarios: it has {len(rows)}.")
    weights = [weight for _, _, weight in rows]
    given = [weight for weight in weights if weight is not None]
    if given and len(given) < len(rows):
        name = next(name for name, _, weight in rows if weight is None)
        raise ConfigError(f"{source}: either all scenarios have a weight, or none; {name!r} has none.")
    for name, _, weight in rows:
        if weight is not None and not (math.isfinite(weight) and weight >= 0):
            raise ConfigError(
                f"{source}: the weight of {name!r} must be a number from 0 up, and is {weight:g}."
            )
    total = sum(given) if given else float(len(rows))
    if not total > 0:
        raise ConfigError(f"{source}: all weights are 0; at least one must be above.")
    names = make_names_unique([name for name, _, _ in rows])
    return tuple(
        Scenario(name, weather, (1.0 if weight is None else weight) / total)
        for name, (_, weather, weight) in zip(names, rows, strict=True)
    )


def make_names_unique(names: Sequence[str]) -> list[str]:
    """Names with a number after those that come again."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def read_csv_rows(path: Path, tell: TellNote) -> list[tuple[str, Weather, float | None]]:
    """The scenarios of a CSV file, ours or Cell2Fire's."""
    header = read_table_text(path).partition("\n")[0]
    if is_cell2fire_weather(header):
        return read_weather_rows([path], tell)
    return [read_entry(f"{path}, line {row.line}", row.cells) for row in read_table(path, ())]


def read_toml(path: Path) -> list[dict[str, Any]]:
    """The tables [[scenario]] of a TOML file."""
    try:
        found = tomllib.loads(read_table_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise EnvError(f"{path} cannot be read as TOML: {error}.") from None
    entries = found.get("scenario")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise EnvError(f"{path} must have a table [[scenario]] for every kind of weather.")
    return entries


def read_entry(where: str, entry: Mapping[str, Any]) -> tuple[str, Weather, float | None]:
    """Name, weather and weight of a line or a table; `where` names it in an error."""
    cells = {str(key): value for key, value in entry.items() if value != ""}
    for key in cells:
        if key not in COLUMNS:
            raise EnvError(f"{where} has an unknown column {key!r}{suggest_nearest(key, COLUMNS)}")
    if "weather" not in cells and not {"wind_speed", "wind_from"} <= set(cells):
        raise EnvError(
            f"{where} lacks wind_speed (km/h) and wind_from (degrees), or a weather such as dry@90 to take "
            "them from."
        )
    base = parse_weather(str(cells.get("weather", "dry")))
    changes = {key: read_weather_number(where, key, cells[key]) for key in FIELDS if key in cells}
    try:
        weather = dataclasses.replace(base, **changes)
    except ConfigError as error:
        raise EnvError(f"{where}: {error}") from None
    weight = read_weather_number(where, "weight", cells["weight"]) if "weight" in cells else None
    return str(cells.get("name", cells.get("weather", where.rpartition(", ")[2]))), weather, weight


def read_weather_number(where: str, key: str, given: Any) -> float:
    """A number of a scenario; a moisture may be percent (`6 %`, 6) or a share (0.06)."""
    text = str(given).strip()
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or isinstance(given, bool):
        raise EnvError(f"{where}: {key} must be a number, and is {text[:20]!r}.")
    if key in ("weight", "wind_speed", "wind_from"):
        return number / 100.0 if percent and key == "weight" else number
    limit = DEAD_PERCENT if key.startswith("dead") else LIVE_PERCENT
    plain_percent = number >= limit if key.startswith("dead") else number > limit
    return number / 100.0 if percent or plain_percent else number
