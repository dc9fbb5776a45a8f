"""The settings of fuel break placement."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import tyro

from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import SEEDS, Between, check_values, describe_value
from flashdqn.envs.fuelbreaks.fire.weather import WEATHERS, Weather
from flashdqn.envs.task import EnvConfig

#: Budget and scene take two bytes each in an observation.
MAX_SIZE, MAX_FIRES, MAX_SCENES = 255, 1000, 65_536

_WEATHER = re.compile(r"([a-z]+)(?:@([0-9]{1,3}(?:\.[0-9]{1,9})?))?(?:/([0-9]{1,3}(?:\.[0-9]{1,9})?))?")


@dataclass(frozen=True)
class FuelBreaksConfig(EnvConfig):
    """Landscapes, weather, budget and fires of fuel break placement."""

    task: ClassVar[str] = "fuelbreaks"

    size: Annotated[int, Between(4, MAX_SIZE)] = 50
    """Number of cells per side; a cell is 30 m wide, or as wide as the rasters say."""
    landscapes: Annotated[int, Between(1, MAX_SCENES)] = 64
    """Number of landscapes to learn on; every episode draws one."""
    held_out: Annotated[int, Between(0, MAX_SCENES)] = 16
    """Number of further landscapes for evaluation, which training never sees."""
    landscape_seed: Annotated[int, Between(*SEEDS)] = 0
    """Seed of generated landscapes, and of random windows of rasters."""
    rasters: str = ""
    """A GeoTIFF or .lcp file, a folder of GeoTIFF or .asc layers, a Cell2Fire folder, an .npz file, or a folder of
    these; empty: landscapes are generated. It must stay in its place."""
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
    maps: Literal["none", "random"] = "none"
    """none: fires start in any burnable cell, all area counts the same, and breaks may lie anywhere. random: each
    landscape may have its own random maps of value at risk (villages), of where fires start, and of cells where
    no break may lie. One agent then learns to read such maps."""
    budget: Annotated[float, Between(0, MAX_SIZE**2)] = 0.05
    """Number of breaks in an episode; a value below 1 is a share of all cells."""
    least_budget: Annotated[float, Between(0, MAX_SIZE**2)] = 0.0
    """If above 0, every episode draws its budget between this and `budget`. One agent then learns all budgets."""
    fires: Annotated[int, Between(1, MAX_FIRES)] = 3
    """Number of fires that judge every break, with the same ignitions before and after. Every episode draws its own
    ignitions. 3 is fast, 100 normal, 200 thorough."""
    reward: Literal["area", "remaining"] = "area"
    """What a break earns. area: what it saves, in percent of the landscape; an episode's return is all that its
    breaks save. remaining: what it saves, in percent of what still burned before it, so that the last breaks of a
    large budget count as much as the first."""
    scouts: Annotated[int, Between(0, MAX_FIRES)] = 0
    """Number of further fires that judge nothing, and whose paths the agent sees: what burns behind each cell, with
    the breaks so far. 0: it sees the landscape alone."""
    duration: Annotated[float, Between(0, 10_000, above=True)] = 240.0
    """Duration of a fire in minutes."""
    ignitions: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROW,COLUMN")] = ()
    """Cells where the fires of every episode start, in turn; none: random burnable cells."""
    sigma: Annotated[float, Between(0, 1, above=True)] = 0.9
    """σ of the expert domirank, as a share of its bound: small values rank cells by their number of ways, and
    near 1 neighbors compete."""

    def __post_init__(self) -> None:
        check_values(self, "env.")
        if self.crop == "centre":  # how it was spelled until 0.1.0
            object.__setattr__(self, "crop", "center")
        self._check_budget()
        self.read_weathers()
        self.read_ignitions()

    def _check_budget(self) -> None:
        cells = self.size * self.size
        for name in ("budget", "least_budget"):
            value = getattr(self, name)
            whole = value < 1 or value == int(value)
            if value > cells or not whole or (name == "budget" and value == 0):
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
            found = re.fullmatch(r"([0-9]{1,9}),([0-9]{1,9})", text.replace(" ", ""))
            if found is None:
                raise ConfigError(
                    f"env.ignitions are written ROW,COLUMN as in 12,30, and {describe_value(text)} is not."
                )
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
            f"A weather is one of {names}, as in dry, dry@90 or extreme@225/60, and {describe_value(text)} is not."
        )
    weather = WEATHERS[found[1]]
    if found[2] is not None:
        weather = dataclasses.replace(weather, wind_from=float(found[2]))
    if found[3] is not None:
        weather = dataclasses.replace(weather, wind_speed=float(found[3]))
    return weather
