"""A problem from the user's files: the one place that knows the readers of landscapes and maps."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.ranges import describe_value
from flashdqn.envs.fuelbreaks.landscape import LAYERS, Landscape
from flashdqn.envs.fuelbreaks.maps.cost import read_cost
from flashdqn.envs.fuelbreaks.maps.read_stakes import read_stakes
from flashdqn.envs.fuelbreaks.rasters import read_landscape
from flashdqn.envs.fuelbreaks.read.assemble import Holes
from flashdqn.envs.fuelbreaks.read.cell2fire import find_companions
from flashdqn.envs.fuelbreaks.read.notes import TellNote
from flashdqn.planning.ground import cut_stakes
from flashdqn.planning.problem import Problem, Scenario
from flashdqn.planning.scenarios import read_scenarios
from flashdqn.planning.weather_words import parse_duration, parse_weather_words

_WINDOW = re.compile(r"([0-9]{1,9}),([0-9]{1,9}),([0-9]{1,9}),([0-9]{1,9})")


@dataclass(frozen=True)
class ProblemRequest:
    """What the user has named."""

    landscape: Path
    weather: tuple[str, ...] = ()
    scenarios: Path | None = None
    ignition_map: Path | None = None
    value_map: Path | None = None
    value_unit: str = ""
    value_attribute: str = ""
    forbidden: Path | None = None
    cost_map: Path | None = None
    holes: Holes = "refuse"
    duration: str = "4h"
    window: str = ""


def read_problem(request: ProblemRequest, tell: TellNote) -> Problem:
    """Read everything; `tell` takes a sentence about what had to be assumed."""
    check_request(request)
    request = add_companions(request, tell)
    duration, scenarios = parse_duration(request.duration), choose_scenarios(request, tell)
    whole = read_landscape(request.landscape, request.holes, tell)
    rows, columns = choose_window(request.window, whole)
    stakes = read_stakes(
        whole, request.value_map, request.ignition_map, request.forbidden, request.value_attribute, tell
    )
    cost = None if request.cost_map is None else read_cost(request.cost_map, whole, tell)
    if request.window:
        stakes = cut_stakes(stakes, rows, columns)
        cost = None if cost is None else cost[rows, columns]
        whole = cut_landscape(whole, rows, columns)
    return Problem(whole, scenarios, stakes, cost, duration, request.value_unit)


def check_request(request: ProblemRequest) -> None:
    """Refuse flags that do not go together, before anything is read."""
    if request.weather and request.scenarios is not None:
        raise ConfigError("--weather and --scenarios both say what the weather is: give one of them.")
    for flag in ("value_unit", "value_attribute"):
        if getattr(request, flag) and request.value_map is None:
            raise ConfigError(f"--{flag.replace('_', '-')} is about --value-map, which is not given.")


def add_companions(request: ProblemRequest, tell: TellNote) -> ProblemRequest:
    """The request with the weather and the ignitions that lie in a Cell2Fire folder, where no flag names others."""
    found = find_companions(request.landscape)
    if found.weather is not None and request.scenarios is None and not request.weather:
        tell(
            f"{request.landscape} has its own weather, which is used: --weather or --scenarios name another."
        )
        request = dataclasses.replace(request, scenarios=found.weather)
    if found.ignition is not None and request.ignition_map is None:
        tell(
            f"{found.ignition} says where fires start: take it away, or name another map with --ignition-map."
        )
        request = dataclasses.replace(request, ignition_map=found.ignition)
    return request


def choose_scenarios(request: ProblemRequest, tell: TellNote) -> tuple[Scenario, ...]:
    """From a file, or from the words on the command line."""
    if request.scenarios is not None:
        return read_scenarios(request.scenarios, tell)
    return parse_weather_words(request.weather)


def choose_window(text: str, landscape: Landscape) -> tuple[slice, slice]:
    """The rows and columns that are planned; all of them where no window is named."""
    if not text:
        return slice(0, landscape.shape[0]), slice(0, landscape.shape[1])
    found = _WINDOW.fullmatch(text.replace(" ", ""))
    if found is None:
        raise ConfigError(
            f"--window is written ROW,COLUMN,ROWS,COLUMNS as in 100,200,400,400, and {describe_value(text)} is not."
        )
    row, column, rows, columns = map(int, found.groups())
    if rows < 1 or columns < 1 or row + rows > landscape.shape[0] or column + columns > landscape.shape[1]:
        raise EnvError(
            f"{landscape.name} has {landscape.shape[0]} x {landscape.shape[1]} cells, and --window {text} reaches "
            f"from row {row} to {row + rows - 1} and from column {column} to {column + columns - 1}: they count "
            "from 0."
        )
    return slice(row, row + rows), slice(column, column + columns)


def cut_landscape(landscape: Landscape, rows: slice, columns: slice) -> Landscape:
    """A rectangle of a landscape, at its own place on the map."""
    layers: dict[str, Any] = {layer: getattr(landscape, layer)[rows, columns] for layer in LAYERS}
    place = None if landscape.place is None else landscape.place.move_corner(rows.start, columns.start)
    return dataclasses.replace(landscape, **layers, place=place)
