"""Fire on many landscapes of one shape, each in the same weathers: tables of travel times, and planes of heat.

`fire_behavior` and `spread_tables` give the same numbers by way of whole arrays. A training has thousands of
scenes, and those arrays would take most of its start. Here a kernel works out a landscape at a time
(every_cell.py)::

    fires = SceneFires(len(landscapes), shape, weathers, hottest=50_000.0)
    fires.burn(0, landscapes[0])  # and so on, in several threads at once
    tables = fires.make_tables(worth, device)
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from flashdqn.compute.calls import FOR_BOARDS, AddressedKernel, ArgumentType, find_type
from flashdqn.envs.fuelbreaks.fire.beds import fuel_table, list_weather
from flashdqn.envs.fuelbreaks.fire.cells import LAYER_NAMES
from flashdqn.envs.fuelbreaks.fire.every_cell import EveryCell, burn_every_cell
from flashdqn.envs.fuelbreaks.fire.fuels import burnable_fuels
from flashdqn.envs.fuelbreaks.fire.moves import list_moves
from flashdqn.envs.fuelbreaks.fire.rays import CELL, FRONT, unit_vectors
from flashdqn.envs.fuelbreaks.fire.surface import fuel_bed
from flashdqn.envs.fuelbreaks.fire.tables import DIRECTIONS, SpreadTables
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.landscape import Landscape

#: Where the fronts go whose heat is kept: north, east, south and west.
AZIMUTHS = (0.0, 90.0, 180.0, 270.0)

_loading = threading.Lock()


class SceneFires:
    """Fire in S = L · W scenes of C cells; scene s is landscape s // W in weather s % W."""

    def __init__(
        self, landscapes: int, shape: tuple[int, int], weathers: Sequence[Weather], hottest: float
    ) -> None:
        """Make room for all scenes. A plane is 1 where a front has `hottest` kW/m."""
        scenes, cells = landscapes * len(weathers), shape[0] * shape[1]
        self.shape, self.hottest = shape, math.log1p(hottest)
        self.times = np.empty((scenes, cells, DIRECTIONS), dtype=np.float32)
        self.open = np.empty((scenes, cells), dtype=np.int64)
        self.burnable = np.empty((scenes, cells), dtype=np.bool_)
        self.planes = np.empty(
            (scenes, len(AZIMUTHS) + 1, cells), dtype=np.float32
        )  # the last is the caller's
        self._kernel: AddressedKernel | None = None
        self._weather = np.array([list_weather(weather) for weather in weathers])
        self._beds = np.stack([np.stack(fuel_bed(burnable_fuels(), weather), axis=1) for weather in weathers])

    def burn(self, number: int, landscape: Landscape) -> slice:
        """Work out a landscape in all weathers; return its scenes. Threads may do this at the same time."""
        weathers = len(self._weather)
        scenes = slice(number * weathers, (number + 1) * weathers)
        every = self._bring_together(scenes, landscape)
        self._load_kernel(every).bind(weathers, *every)()
        return scenes

    def make_tables(self, worth: NDArray[np.int32], device: torch.device | str) -> SpreadTables:
        """The tables of all scenes, where cells have a worth [S, C]."""
        parts = (self.times, self.open, self.burnable, worth)
        return SpreadTables(self.shape, DIRECTIONS, *(torch.from_numpy(part).to(device) for part in parts))

    def _load_kernel(self, every: EveryCell) -> AddressedKernel:
        """The kernel for arrays like these: one thread compiles it, and the others wait."""
        if self._kernel is None:
            with _loading:
                self._kernel = _compile(tuple(find_type(argument) for argument in (1, *every)))
        return self._kernel

    def _bring_together(self, scenes: slice, landscape: Landscape) -> EveryCell:
        table, moves, count = fuel_table(), list_moves(DIRECTIONS), landscape.fuel_model.size
        return EveryCell(
            rows=self.shape[0],
            columns=self.shape[1],
            cell_size=float(landscape.cell_size),
            hottest=self.hottest,
            layers=np.stack([getattr(landscape, name).reshape(-1) for name in LAYER_NAMES]),
            fuel=landscape.fuel_model.reshape(-1),
            model=table.model,
            fuels=table.columns,
            weather=self._weather,
            beds=self._beds,
            **moves.compass._asdict(),
            passed=moves.passed,
            passed_count=moves.passed_count,
            share=moves.share,
            facing=_face_azimuths(),
            front=np.empty(FRONT),
            cell=np.empty((count, CELL)),
            slow=np.empty((count, DIRECTIONS)),
            times=self.times[scenes],
            open=self.open[scenes],
            burnable=self.burnable[scenes],
            planes=self.planes[scenes],
        )


@cache
def _face_azimuths() -> NDArray[np.float64]:
    return unit_vectors(AZIMUTHS)


@cache
def _compile(kinds: tuple[ArgumentType, ...]) -> AddressedKernel:
    return AddressedKernel(burn_every_cell, kinds, FOR_BOARDS)
