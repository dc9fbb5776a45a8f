"""Fires on a landscape that is used once: a cell is worked out when a front first comes near it.

`Spread` needs tables of the whole landscape, which pay off when many fires burn on it. Here a few fires burn
from the layers on, and the cells that they do not reach cost nothing. The times of arrival are those of `Spread`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from flashdqn.compute.calls import FOR_BOARDS, AddressedKernel, find_type
from flashdqn.core.errors import EnvError
from flashdqn.envs.fuelbreaks.fire import beds, cells
from flashdqn.envs.fuelbreaks.fire.fuels import CLASSES
from flashdqn.envs.fuelbreaks.fire.layout import BUCKETS, DURATION, LIMITS, NOBODY, PER_MINUTE
from flashdqn.envs.fuelbreaks.fire.lazy_paths import LAST, UNKNOWN, USED, LazyGround, burn_fire_once
from flashdqn.envs.fuelbreaks.fire.moves import Moves, list_moves
from flashdqn.envs.fuelbreaks.fire.rays import CELL, FRONT
from flashdqn.envs.fuelbreaks.fire.spread import LONGEST
from flashdqn.envs.fuelbreaks.fire.tables import DIRECTIONS
from flashdqn.envs.fuelbreaks.fire.weather import Weather
from flashdqn.envs.fuelbreaks.landscape import Landscape

# Of larger landscapes, or more fires at once, no workspace is kept.
MOST_KEPT = 250_000
KEPT_SHAPES = 8


class FireWorkspace:
    """All arrays for fires on landscapes of one shape, and the kernel bound to them."""

    def __init__(self, shape: tuple[int, int], fires: int, directions: int) -> None:
        self.moves = list_moves(directions)
        self.ground = _make_ground(shape, fires, self.moves)
        self._burn = _load_kernel().bind(fires, *self.ground)

    def burn(
        self,
        landscape: Landscape,
        weather: Weather,
        ignition: NDArray[np.int64],
        duration: float,
        breaks: NDArray[np.bool_] | None,
    ) -> NDArray[np.float32]:
        """Minutes of arrival, [F, C]; the next call overwrites them."""
        ground = self.ground
        for row, name in zip(ground.layers, cells.LAYER_NAMES, strict=True):
            row[:] = getattr(landscape, name).reshape(-1)
        ground.fuel[:] = landscape.fuel_model.reshape(-1)
        ground.breaks[:] = False if breaks is None else breaks.reshape(-1)
        np.multiply(self.moves.share, landscape.cell_size, out=ground.weight)
        ground.weather[:] = beds.list_weather(weather)
        ground.beds[:, beds.KNOWN] = 0.0
        ground.slot.fill(UNKNOWN)
        ground.ignition[:] = ignition
        ground.limits[DURATION], ground.limits[PER_MINUTE] = duration, (BUCKETS - 1) / duration
        ground.ways.fill(UNKNOWN)
        ground.params[USED], ground.params[LAST] = 0, -1
        self._burn()
        arrival: NDArray[np.float32] = ground.arrival
        return arrival


#: Workspaces that are not in use, so that the next fire need not allocate; each caller takes one out.
_idle: dict[tuple[tuple[int, int], int, int], list[FireWorkspace]] = {}


def burn_once(
    landscape: Landscape,
    weather: Weather,
    ignition: Sequence[int],
    duration: float,
    breaks: NDArray[np.bool_] | None = None,
    directions: int = DIRECTIONS,
) -> NDArray[np.float32]:
    """Minutes of arrival of each fire, [F, H, W]; infinite where it does not arrive in time.

    `ignition` are cells, row · columns + column; `breaks` is [H, W].
    """
    rows, columns = landscape.shape
    lit = np.array(ignition, dtype=np.int64).reshape(-1)
    if len(lit) == 0 or lit.min() < 0 or lit.max() >= rows * columns:
        raise EnvError(
            f"A fire starts in a cell from 0 to {rows * columns - 1}, which is row · columns + column; got "
            f"{lit.tolist()}."
        )
    check_duration(duration)
    key = (landscape.shape, len(lit), directions)
    idle = _idle.get(key)
    workspace = idle.pop() if idle else FireWorkspace(*key)
    found = workspace.burn(landscape, weather, lit, duration, breaks).reshape(-1, rows, columns)
    if rows * columns * len(lit) > MOST_KEPT:
        return found
    arrival = found.copy()
    if len(_idle) >= KEPT_SHAPES and key not in _idle:
        _idle.clear()
    _idle.setdefault(key, []).append(workspace)
    return arrival


def check_duration(duration: float) -> None:
    """Refuse a duration that float32 cannot add up."""
    if not 0 < duration <= LONGEST:
        raise EnvError(
            f"A fire burns for more than 0 and at most {LONGEST:g} minutes (a week); got {duration}."
        )


@cache
def _load_kernel() -> AddressedKernel:
    """The kernel, compiled once; the arrays of all workspaces have the same types."""
    ground = _make_ground((1, 1), 1, list_moves(DIRECTIONS))
    return AddressedKernel(burn_fire_once, [find_type(argument) for argument in (1, *ground)], FOR_BOARDS)


def _make_ground(shape: tuple[int, int], fires: int, moves: Moves) -> LazyGround:
    """Arrays for landscapes of a shape; most are filled before each fire."""
    (rows, columns), table = shape, beds.fuel_table()
    count, kinds = rows * columns, len(moves.offset)
    return LazyGround(
        layers=np.empty((cells.LAYERS, count), dtype=np.float32),
        fuel=np.empty(count, dtype=np.int16),
        breaks=np.empty(count, dtype=np.bool_),
        model=table.model,
        fuels=table.columns,
        weather=np.empty(beds.WEATHER),
        beds=np.zeros((len(table.columns), beds.BED)),
        scratch=np.empty((beds.SCRATCH, CLASSES)),
        **moves.compass._asdict(),
        front=np.empty(FRONT),
        passed=moves.passed,
        passed_count=moves.passed_count,
        weight=np.empty_like(moves.share),
        step=moves.offset @ np.array((columns, 1)),
        outside=moves.outside,
        slot=np.empty(count, dtype=np.int32),
        cell=np.empty((count, CELL)),
        slow=np.empty((count, kinds)),
        times=np.empty((count, kinds), dtype=np.float32),
        ways=np.empty(count, dtype=np.int64),
        ignition=np.empty(fires, dtype=np.int64),
        arrival=np.empty((fires, count), dtype=np.float32),
        work=np.empty((1, 2, count), dtype=np.int32),
        head=np.full((1, BUCKETS), NOBODY, dtype=np.int32),
        limits=np.empty(LIMITS, dtype=np.float32),
        params=np.array([rows, columns, 0, -1], dtype=np.int64),
    )
