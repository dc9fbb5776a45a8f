"""The settings of fuel break placement."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import tyro

from flashdqn.core.errors import ConfigError
from flashdqn.envs.fuelbreaks.fire.weather import WEATHERS, Weather
from flashdqn.envs.task import EnvConfig

#: Budget and scene take two bytes each in an observation.
MAX_SIZE, MAX_FIRES, MAX_SCENES = 255, 1000, 65_536

_WEATHER = re.compile(r"([a-z]+)(?:@([\d.]+))?(?:/([\d.]+))?")


@dataclass(frozen=True)
class FuelBreaksConfig(EnvConfig):
    """Landscapes, weather, budget and fires of fuel break placement."""

    task: ClassVar[str] = "fuelbreaks"

    size: int = 50
    """Number of cells per side; a cell is 30 m wide, or as wide as the rasters say."""
    landscapes: int = 64
    """Number of landscapes to learn on; every episode draws one."""
    held_out: int = 16
    """Number of further landscapes for evaluation, which training never sees."""
    landscape_seed: int = 0
    """Seed of generated landscapes, and of random windows of rasters."""
    rasters: str = ""
    """A folder of GeoTIFF layers in LANDFIRE's form, an .npz file, or a folder of these; empty: landscapes are
    generated. It must stay in its place."""
    crop: Annotated[Literal["center", "random", "centre"], tyro.conf.arg(metavar="{center,random}")] = (
        "random"
    )
    """How rasters are cut to `size`. random: random windows, `landscapes` to learn on and `held_out` others.
    center: the middle of each raster, the last `held_out` of them for evaluation."""
    weathers: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME[@FROM][/KMH]")] = (
        "dry@0",
        "dry@90",
        "dry@180",
        "dry@270",
    )
    """Kinds of weather; every episode draws one. A weather is mild, dry or extreme, and may add where the wind
    blows from in degrees and its speed in km/h: dry, dry@90, extreme@225/60."""
    budget: float = 0.05
    """Number of breaks in an episode; a value below 1 is a share of all cells."""
    least_budget: float = 0.0
    """If above 0, every episode draws its budget between this and `budget`. One agent then learns all budgets."""
    fires: int = 3
    """Number of fires that judge every break, with the same ignitions before and after. Every episode draws its own
    ignitions. 3 is fast, 100 normal, 200 thorough."""
    duration: float = 240.0
    """Duration of a fire in minutes."""
    ignitions: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROW,COLUMN")] = ()
    """Cells where the fires of every episode start, in turn; none: random burnable cells."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("size", 4, MAX_SIZE),
            ("landscapes", 1, MAX_SCENES),
            ("held_out", 0, MAX_SCENES),
            ("fires", 1, MAX_FIRES),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigError(f"env.{name} must lie in {least} … {most}, and is {value}.")
        if self.crop == "centre":  # how it was spelled until 0.1.0
            object.__setattr__(self, "crop", "center")
        if self.crop not in ("center", "random"):
            raise ConfigError(f"env.crop must be center or random, and is {self.crop!r}.")
        if not 0 < self.duration <= 10_000:
            raise ConfigError(
                f"env.duration must be above 0 and at most 10000 minutes, and is {self.duration}."
            )
        self._check_budget()
        self.read_weathers()
        self.read_ignitions()

    def _check_budget(self) -> None:
        cells = self.size * self.size
        for name in ("budget", "least_budget"):
            value = getattr(self, name)
            fine = math.isfinite(value) and 0 <= value <= cells and (value < 1 or value == int(value))
            if not fine or (name == "budget" and value == 0):
                raise ConfigError(
                    f"env.{name} must be a share of the cells below 1, or a whole number of them up to {cells}; "
                    f"it is {value:g}."
                )
        if self.fewest_breaks > self.most_breaks:
            raise ConfigError(
                f"env.least_budget is {self.fewest_breaks} breaks, more than env.budget, which is "
                f"{self.most_breaks}."
            )

    @property
    def most_breaks(self) -> int:
        """Number of breaks of the largest budget."""
        return self._breaks(self.budget)

    @property
    def fewest_breaks(self) -> int:
        """Number of breaks of the smallest budget."""
        return self._breaks(self.least_budget) if self.least_budget > 0 else self.most_breaks

    def _breaks(self, budget: float) -> int:
        return max(1, round(budget * self.size * self.size)) if budget < 1 else int(budget)

    def read_weathers(self) -> list[Weather]:
        """The kinds of weather."""
        if not self.weathers:
            raise ConfigError("env.weathers needs at least one: mild, dry or extreme.")
        return [parse_weather(text) for text in self.weathers]

    def read_ignitions(self) -> list[tuple[int, int]]:
        """The given ignitions as rows and columns."""
        cells = []
        for text in self.ignitions:
            found = re.fullmatch(r"(\d+),(\d+)", text.replace(" ", ""))
            if found is None:
                raise ConfigError(f"env.ignitions are written ROW,COLUMN as in 12,30, and '{text}' is not.")
            row, column = int(found[1]), int(found[2])
            if max(row, column) >= self.size:
                raise ConfigError(
                    f"The ignition {row},{column} lies outside the grid: rows and columns count from 0 to "
                    f"{self.size - 1}."
                )
            cells.append((row, column))
        return cells


def parse_weather(text: str) -> Weather:
    """`dry`, `dry@90` (wind from the east), `extreme@225/60` (from the south-west at 60 km/h)."""
    found = _WEATHER.fullmatch(text.replace(" ", ""))
    if found is None or found[1] not in WEATHERS:
        names = ", ".join(WEATHERS)
        raise ConfigError(
            f"A weather is one of {names}, as in dry, dry@90 or extreme@225/60, and '{text}' is not."
        )
    weather = WEATHERS[found[1]]
    if found[2] is not None:
        weather = dataclasses.replace(weather, wind_from=float(found[2]))
    if found[3] is not None:
        weather = dataclasses.replace(weather, wind_speed=float(found[3]))
    return weather
