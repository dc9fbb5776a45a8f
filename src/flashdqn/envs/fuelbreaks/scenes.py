"""The scenes, made before the first episode: fire, planes and cells of every landscape in every weather."""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flashdqn.compute.core_count import cores
from flashdqn.compute.device import format_bytes, free_bytes
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs.fuelbreaks.collection import collect_landscapes
from flashdqn.envs.fuelbreaks.config import MAX_SCENES, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.fire.scene_fires import SceneFires
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.generate_stakes import generate_stakes
from flashdqn.envs.fuelbreaks.landscape import NON_BURNABLE, Landscape
from flashdqn.envs.fuelbreaks.observation import HOTTEST, LAYER_PLANES, Planes, ignition_plane, layer_planes
from flashdqn.envs.fuelbreaks.stakes import Stakes

#: Bytes of a cell in one weather: 166 of its tables, maps and planes, and some to work with.
BYTES_PER_CELL = 200

#: The settings that determine the scenes. Budget, fires and ignitions do not.
_SHAPING = ("size", "landscapes", "held_out", "landscape_seed", "rasters", "crop", "weathers", "maps")


@dataclass(frozen=True, eq=False)
class Scenes:
    """Scene s is landscape s // weathers in weather s % weathers; those of the held-out landscapes come last."""

    landscapes: tuple[Landscape, ...]
    stakes: tuple[Stakes, ...]  # of each landscape
    weathers: tuple[Weather, ...]
    learn: int  # landscapes to learn on
    spread: SpreadTables
    planes: Planes
    burnable: Tensor  # [S, cells] bool: where fire spreads in this weather
    placeable: Tensor  # [S, cells] bool: where a break may lie
    places: (
        Tensor  # [S, cells] int32: the first `counts` of a row are cells; a random one is a random ignition
    )
    counts: Tensor  # [S] int32
    worth: Tensor  # [S] int64: of all cells together

    def __len__(self) -> int:
        return len(self.landscapes) * len(self.weathers)

    def split(self, held_out: bool) -> tuple[int, int]:
        """First and end of the scenes to learn on, or of those held out; if none are held out, the same ones."""
        border = self.learn * len(self.weathers)
        if held_out and border < len(self):
            return border, len(self)
        return 0, border

    def name(self, scene: int) -> str:
        """A scene's name for messages."""
        return self.landscapes[scene // len(self.weathers)].name


def make_scenes(config: FuelBreaksConfig, device: torch.device) -> Scenes:
    """The scenes of a configuration, made once per process and device."""
    plain = FuelBreaksConfig(**{name: getattr(config, name) for name in _SHAPING})
    return _make_cached(plain, device)


@functools.lru_cache(maxsize=4)
def _make_cached(config: FuelBreaksConfig, device: torch.device) -> Scenes:
    check_scenes_fit(config, device)
    landscapes, learn = collect_landscapes(config)
    return build_scenes(landscapes, config.read_weathers(), learn, device, collect_stakes(config, landscapes))


def collect_stakes(config: FuelBreaksConfig, landscapes: list[Landscape]) -> list[Stakes]:
    """The maps of each landscape."""
    if config.maps == "none":
        return [Stakes()] * len(landscapes)
    return [generate_stakes(config.landscape_seed + k, land) for k, land in enumerate(landscapes)]


def check_scenes_fit(config: FuelBreaksConfig, device: torch.device) -> None:
    """Refuse more scenes than fit into memory, before hours are spent on them."""
    if config.rasters and config.crop == "center":  # the files say how many there are
        return
    landscapes = config.landscapes + config.held_out
    needed = landscapes * config.size**2 * (BYTES_PER_CELL * len(config.weathers) + BYTES_PER_CELL // 2)
    free = min(free_bytes(device), free_bytes(torch.device("cpu")))
    if needed > 0.9 * free:
        raise ConfigError(
            f"{landscapes:,} landscapes of {config.size} x {config.size} cells in {len(config.weathers)} kinds of "
            f"weather would take {format_bytes(needed)}, but {format_bytes(free)} are free: lower env.landscapes, "
            "env.held_out, env.size or the number of env.weathers."
        )


def build_scenes(
    landscapes: list[Landscape],
    weathers: list[Weather],
    learn: int,
    device: torch.device,
    stakes: list[Stakes] | None = None,
) -> Scenes:
    """Build the scenes of landscapes that have one shape. Without stakes, area is protected, fires start in any
    burnable cell, and breaks may lie there."""
    stakes = [Stakes()] * len(landscapes) if stakes is None else stakes
    for land, given in zip(landscapes, stakes, strict=True):
        given.check_shape(land.shape)
    if len(landscapes) * len(weathers) > MAX_SCENES:
        raise ConfigError(
            f"{len(landscapes)} landscapes in {len(weathers)} kinds of weather are more than {MAX_SCENES} "
            "scenes: lower "
            "env.landscapes, env.held_out or the number of env.weathers."
        )
    fires = SceneFires(len(landscapes), find_shape(landscapes), weathers, HOTTEST)
    maps = SceneMaps.make_room(len(landscapes), len(weathers), fires.shape)
    with ThreadPoolExecutor(cores()) as pool:  # neither NumPy nor the kernel holds Python's lock
        list(pool.map(partial(fill_maps, fires, maps), itertools.count(), landscapes, stakes))

    def move(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(device)

    placeable, planes = move(maps.placeable), fires.planes.reshape(len(fires.planes), -1, *fires.shape)
    spread = fires.make_tables(maps.worth, device)
    return Scenes(
        landscapes=tuple(landscapes),
        stakes=tuple(stakes),
        weathers=tuple(weathers),
        learn=learn,
        spread=spread,
        planes=Planes(move(maps.layers), move(planes), placeable),
        burnable=spread.burnable,
        placeable=placeable,
        places=move(maps.places),
        counts=move(maps.counts),
        worth=move(maps.worth.sum(1, dtype=np.int64)),
    )


def find_shape(landscapes: list[Landscape]) -> tuple[int, int]:
    """The one shape of all landscapes."""
    shapes = {land.shape for land in landscapes}
    if len(shapes) > 1:
        raise EnvError(f"All landscapes of a set must have one shape; these have {sorted(shapes)}.")
    return shapes.pop()


class SceneMaps(NamedTuple):
    """What `Scenes` holds besides fire."""

    layers: NDArray[np.float32]  # [L, 10, H, W]
    worth: NDArray[np.int32]  # [S, cells]
    placeable: NDArray[np.bool_]  # [S, cells]
    places: NDArray[np.int32]  # [S, cells]
    counts: NDArray[np.int32]  # [S]

    @classmethod
    def make_room(cls, landscapes: int, weathers: int, shape: tuple[int, int]) -> SceneMaps:
        """Arrays to be filled."""
        scenes = (landscapes * weathers, shape[0] * shape[1])
        return cls(
            np.empty((landscapes, LAYER_PLANES, *shape), dtype=np.float32),
            np.empty(scenes, dtype=np.int32),
            np.empty(scenes, dtype=np.bool_),
            np.zeros(scenes, dtype=np.int32),
            np.empty(scenes[0], dtype=np.int32),
        )


def fill_maps(fires: SceneFires, maps: SceneMaps, k: int, landscape: Landscape, stakes: Stakes) -> None:
    """Burn landscape `k` in all weathers, and write its maps."""
    some = fires.burn(k, landscape)
    maps.layers[k] = layer_planes(landscape, stakes)
    maps.worth[some] = stakes.worth(landscape.shape)
    for scene in range(some.start, some.stop):
        burnable = fires.burnable[scene]
        fires.planes[scene, -1] = ignition_plane(stakes, burnable)
        maps.placeable[scene] = find_placeable(stakes, burnable)
        cells = stakes.ignition_cells(burnable)
        maps.places[scene, : len(cells)], maps.counts[scene] = cells, len(cells)


def find_placeable(stakes: Stakes, burnable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a break may lie, [cells]: where something burns, and nobody forbids it."""
    return burnable if stakes.forbidden is None else burnable & ~stakes.forbidden.reshape(-1)


def check_breaks_fit(config: FuelBreaksConfig, scenes: Scenes) -> None:
    """Refuse a budget that does not fit into some landscape."""
    free = scenes.placeable.sum(1)
    scene = int(free.argmin())
    fewest = int(free[scene])
    if config.most_breaks > fewest:
        raise EnvError(
            f"The budget is {config.most_breaks} breaks, and {scenes.name(scene)} has {fewest} cells where a break "
            "may lie: lower env.budget."
        )


def check_ignitions(config: FuelBreaksConfig, scenes: Scenes) -> None:
    """Refuse given ignitions where nothing burns."""
    for row, column in config.read_ignitions():
        cell = row * config.size + column
        bad = (~scenes.burnable[:, cell]).nonzero()
        if len(bad):
            scene = int(bad[0])
            land = scenes.landscapes[scene // len(scenes.weathers)]
            fuel = int(land.fuel_model[row, column])
            ground = NON_BURNABLE.get(fuel, f"fuel model {fuel}, too moist to burn")
            raise EnvError(
                f"The ignition {row},{column} lies on {ground} in {land.name}, where no fire can start: give "
                "another cell."
            )
