"""The scenes, made before the first episode: fire, planes and cells of every landscape in every weather."""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flashdqn.compute.core_count import cores
from flashdqn.compute.device import format_bytes, free_bytes
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs.fuelbreaks.collection import collect_landscapes
from flashdqn.envs.fuelbreaks.config import MAX_SCENES, FuelBreaksConfig
from flashdqn.envs.fuelbreaks.fire.behavior import FireBehavior, joint_behavior, split_behavior
from flashdqn.envs.fuelbreaks.fire.tables import SpreadTables, spread_tables
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.landscape import NON_BURNABLE, Landscape
from flashdqn.envs.fuelbreaks.observation import Planes, intensity_planes, layer_planes

#: Bytes of a cell in one weather: its tables, and its behavior in fire while they are computed.
BYTES_PER_CELL = 400

#: Cells whose fires are computed together: fewer would take more calls, more would leave the processor's cache.
CELLS_AT_ONCE = 10_000

#: The settings that determine the scenes. Budget, fires and ignitions do not.
_SHAPING = ("size", "landscapes", "held_out", "landscape_seed", "rasters", "crop", "weathers")


@dataclass(frozen=True, eq=False)
class Scenes:
    """Scene s is landscape s // weathers in weather s % weathers; those of the held-out landscapes come last."""

    landscapes: tuple[Landscape, ...]
    weathers: tuple[Weather, ...]
    learn: int  # landscapes to learn on
    spread: SpreadTables
    planes: Planes
    burnable: Tensor  # [S, cells] bool: where fire spreads in this weather
    places: Tensor  # [S, cells] int32: the numbers of the burnable cells, in order
    counts: Tensor  # [S] int32: the number of burnable cells

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
    return build_scenes(landscapes, config.read_weathers(), learn, device)


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
    landscapes: list[Landscape], weathers: list[Weather], learn: int, device: torch.device
) -> Scenes:
    """Build the scenes of landscapes that have one shape."""
    if len(landscapes) * len(weathers) > MAX_SCENES:
        raise ConfigError(
            f"{len(landscapes)} landscapes in {len(weathers)} kinds of weather are more than {MAX_SCENES} "
            "scenes: lower "
            "env.landscapes, env.held_out or the number of env.weathers."
        )
    behaviors, heat = burn_landscapes(landscapes, weathers)
    layers = torch.from_numpy(np.stack([layer_planes(land) for land in landscapes])).to(device)
    intensities = torch.from_numpy(heat).to(device)
    burnable = np.stack([fire.burnable.reshape(-1) for fire in behaviors])
    order = np.argsort(~burnable, axis=1, kind="stable").astype(np.int32)  # burnable cells first
    there = torch.from_numpy(burnable).to(device)
    return Scenes(
        landscapes=tuple(landscapes),
        weathers=tuple(weathers),
        learn=learn,
        spread=spread_tables(behaviors, device),
        planes=Planes(layers, intensities, there),
        burnable=there,
        places=torch.from_numpy(order).to(device),
        counts=torch.from_numpy(burnable.sum(1).astype(np.int32)).to(device),
    )


def burn_landscapes(
    landscapes: list[Landscape], weathers: list[Weather]
) -> tuple[list[FireBehavior], NDArray[np.float32]]:
    """The behavior of fire in every scene, and its intensity planes [S, 4, H, W]."""
    if len({land.shape for land in landscapes}) > 1:
        shapes = sorted({land.shape for land in landscapes})
        raise EnvError(f"All landscapes of a set must have one shape; these have {shapes}.")
    (rows, columns), count = landscapes[0].shape, len(weathers)
    behaviors: dict[int, FireBehavior] = {}
    planes = np.empty((len(landscapes) * count, 4, rows, columns), dtype=np.float32)
    at_once = max(1, CELLS_AT_ONCE // (rows * columns))

    def burn(start: int, k: int) -> None:
        some = landscapes[start : start + at_once]
        joint = joint_behavior(some, weathers[k])
        scenes = range(start * count + k, (start + len(some)) * count, count)
        behaviors.update(zip(scenes, split_behavior(joint, some), strict=True))
        heat = intensity_planes(joint).reshape(4, len(some), rows, columns)
        planes[scenes.start : scenes.stop : count] = heat.swapaxes(0, 1)

    with ThreadPoolExecutor(cores()) as pool:  # NumPy computes without holding Python's lock
        work = itertools.product(range(0, len(landscapes), at_once), range(count))
        for done in [pool.submit(burn, *which) for which in work]:
            done.result()
    return [behaviors[scene] for scene in range(len(planes))], planes


def check_breaks_fit(config: FuelBreaksConfig, scenes: Scenes) -> None:
    """Refuse a budget that does not fit into some landscape."""
    scene = int(scenes.counts.argmin())
    fewest = int(scenes.counts[scene])
    if config.most_breaks > fewest:
        raise EnvError(
            f"The budget is {config.most_breaks} breaks, and {scenes.name(scene)} has {fewest} cells that "
            "burn: lower "
            "env.budget."
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
