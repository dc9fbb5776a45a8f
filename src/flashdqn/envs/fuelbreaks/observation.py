"""The observation in two forms: a few bytes for the ring, and seventeen planes for the network.

For a 50x50 landscape the planes take 170 KB, and only the breaks and the budget ever change. So an
observation is stored as

    bytes 0, 1    the scene: landscape · weathers + weather     (low byte first)
    bytes 2, 3    breaks left in the budget
    bytes 4 …     the breaks, a bit for each cell: cell c is bit c mod 8 of byte 4 + c div 8
    then, where there are scouts, what burns behind each cell, a byte each (`fire/downstream.py`)

which is 317 bytes without scouts. The network's first step looks up the rest in tables on its device. The planes,
in order:

     0 slope          4 canopy bulk density   8 fuel model               12 intensity to the south
     1 aspect         5 canopy base height    9 value at risk            13 … to the west
     2 elevation      6 canopy height        10 intensity to the north   14 density of ignitions
     3 canopy cover   7 no break may lie     11 … to the east            15 breaks so far, 16 budget left
    17 what burns behind a cell, where there are scouts

Where a break is, the fuel model is 91, nothing can be lost, and no fire goes anywhere or starts there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flashdqn.core.contract import ObsSpec
from flashdqn.core.saved import require_range
from flashdqn.envs.fuelbreaks.fire.behavior import FireBehavior, rate_and_intensity_toward
from flashdqn.envs.fuelbreaks.landscape import FUEL_MODELS, LAYERS, NON_BURNABLE, Landscape
from flashdqn.envs.fuelbreaks.stakes import Stakes

HEADER = 4
CHANNELS = (
    *LAYERS[:-1],
    "forbidden",
    "fuel_model",
    "value",
    "intensity_north",
    "intensity_east",
    "intensity_south",
    "intensity_west",
    "ignition",
    "breaks",
    "budget",
)
#: From this plane to that of the breaks, a break makes everything 0.
FUEL = CHANNELS.index("fuel_model")
#: The planes before this one do not depend on the weather.
LAYER_PLANES = CHANNELS.index("intensity_north")

#: What a byte of the flow is divided by: 1 is a fire of some thousand cells.
FLOW_UNIT = 128.0

#: A budget of this share of the cells is 1 in its plane.
FULL_BUDGET = 0.2

#: What a layer is divided by.
UNITS = {
    "slope": 45.0,
    "aspect": 360.0,
    "elevation": 100.0,  # from the landscape's mean
    "canopy_cover": 1.0,
    "canopy_bulk_density": 0.2,
    "canopy_base_height": 5.0,
    "canopy_height": 30.0,
}
#: Intensities span six powers of ten: their logarithm counts, and 50,000 kW/m is 1.
HOTTEST = 50_000.0


def count_break_bytes(cells: int) -> int:
    """Bytes of the breaks in an observation."""
    return (cells + 7) // 8


def stored_obs_spec(cells: int, flow: bool) -> ObsSpec:
    """The specification of the stored observation; `flow`: with a byte for each cell's value downstream."""
    return ObsSpec((HEADER + count_break_bytes(cells) + (cells if flow else 0),), torch.uint8)


def layer_planes(landscape: Landscape, stakes: Stakes) -> NDArray[np.float32]:
    """What does not depend on the weather, as the network reads it, [10, H, W]: all planes up to the value."""
    planes = []
    for layer in LAYERS[:-1]:
        values = getattr(landscape, layer).astype(np.float64)
        if layer == "elevation":
            values = values - values.mean()
        planes.append((values / UNITS[layer]).astype(np.float32))
    forbidden = np.zeros(landscape.shape, bool) if stakes.forbidden is None else stakes.forbidden
    worth = stakes.worth(landscape.shape).reshape(landscape.shape)
    planes += [
        forbidden.astype(np.float32),
        fuel_share(landscape.fuel_model),
        share_plane(worth / worth.mean()),
    ]
    return np.stack(planes)


def share_plane(share: NDArray[Any]) -> NDArray[np.float32]:
    """Shares of something, 1 on average, as the network reads them: 0 stays 0, 1 stays 1, and villages do not
    outshine the rest."""
    return np.log2(1.0 + share).astype(np.float32)


def scene_planes(behavior: FireBehavior, stakes: Stakes) -> NDArray[np.float32]:
    """What depends on the weather, [5, H, W]: the intensities, and where fires start."""
    lit = ignition_plane(stakes, behavior.burnable.reshape(-1))
    return np.concatenate((intensity_planes(behavior), lit.reshape(1, *behavior.burnable.shape)))


def ignition_plane(stakes: Stakes, burnable: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Where fires start, [cells]: the density is 1 on average over the burnable cells."""
    return share_plane(stakes.ignition_density(burnable) * burnable.sum())


def fuel_share(fuel: NDArray[Any]) -> NDArray[np.float32]:
    """A fuel model's rank among those that burn, in (0, 1]; 0 for those that do not."""
    burning = np.array(sorted(FUEL_MODELS - set(NON_BURNABLE)))
    place = (np.searchsorted(burning, fuel) + 1) / len(burning)
    return np.where(np.isin(fuel, burning), place, 0.0).astype(np.float32)


def intensity_planes(behavior: FireBehavior) -> NDArray[np.float32]:
    """Fireline intensity of a front that goes north, east, south and west, [4, H, W]."""
    heat = np.stack(
        [rate_and_intensity_toward(behavior, azimuth)[1] for azimuth in (0.0, 90.0, 180.0, 270.0)]
    )
    heat = np.where(behavior.burnable, heat.astype(np.float64), 0.0)
    planes: NDArray[np.float32] = (np.log1p(heat) / np.log1p(HOTTEST)).astype(np.float32)
    return planes


#: `layer_planes` by landscape; `scene_planes` and the cells where a break may lie by scene; bits 0 … 7.
Tables = tuple[Tensor, Tensor, Tensor, Tensor]


class Planes:
    """The decoder from bytes to planes, with its tables on every device that needs them."""

    def __init__(self, layers: Tensor, scenes: Tensor, placeable: Tensor, flow: bool = False) -> None:
        """`layer_planes` [L, 10, H, W] by landscape; by scene, `scene_planes` [S, 5, H, W] and the cells where a
        break may lie [S, H · W]. `flow`: observations tell what burns behind each cell."""
        self.size = layers.shape[2:]
        self.shape = (len(CHANNELS) + flow, *self.size)
        self.flow = flow
        self.weathers = len(scenes) // len(layers)
        self.cells = int(self.size.numel())
        self.device = layers.device
        shifts = torch.arange(8, dtype=torch.uint8, device=self.device)
        self._own = layers, scenes, placeable, shifts
        self._copies: dict[torch.device, Tables] = {}

    def __call__(self, obs: Tensor) -> Tensor:
        """[B, bytes] → [B, 17 or 18, H, W] float32."""
        layers, scenes, _, shifts = self.tables(obs.device)
        scene, left = read_header(obs)
        breaks = self._breaks(obs, shifts).view(-1, 1, *self.size).to(torch.float32)
        standing = 1.0 - breaks
        known = layers[scene // self.weathers]
        known = torch.cat((known[:, :FUEL], known[:, FUEL:] * standing), 1)
        share = left.to(torch.float32) / (FULL_BUDGET * self.cells)
        budget = share.view(-1, 1, 1, 1).expand_as(breaks)
        planes = (known, scenes[scene] * standing, breaks, budget)
        return torch.cat((*planes, self._read_flow(obs)) if self.flow else planes, 1)

    def _read_flow(self, obs: Tensor) -> Tensor:
        behind = obs[:, HEADER + count_break_bytes(self.cells) :].to(torch.float32)
        return (behind / FLOW_UNIT).view(-1, 1, *self.size)

    def with_flow(self) -> Planes:
        """The decoder of observations that also tell what burns behind each cell."""
        layers, scenes, placeable, _ = self._own
        return Planes(layers, scenes, placeable, flow=True)

    def check(self, obs: Tensor) -> None:
        """Refuse observations, [B, bytes], of a scene that there is not: its number is an index."""
        scene, _ = read_header(obs)
        require_range("the scene of an observation", scene, 0, len(self._own[1]) - 1)

    def legal(self, obs: Tensor) -> Tensor:
        """[B, bytes] → [B, H · W] bool: cells where a break may lie and none does."""
        _, _, placeable, shifts = self.tables(obs.device)
        scene, _ = read_header(obs)
        return placeable[scene] & ~self._breaks(obs, shifts).view(-1, self.cells)

    def _breaks(self, obs: Tensor, shifts: Tensor) -> Tensor:
        bits = (obs[:, HEADER : HEADER + count_break_bytes(self.cells), None] >> shifts) & 1  # [B, bytes, 8]
        return bits.flatten(1)[:, : self.cells].to(torch.bool)

    def tables(self, device: torch.device) -> Tables:
        """The tables on a device."""
        if device == self.device:
            return self._own
        if device not in self._copies:
            layers, scenes, placeable, shifts = (table.to(device) for table in self._own)
            self._copies[device] = layers, scenes, placeable, shifts
        return self._copies[device]

    def __deepcopy__(self, memo: Any) -> Planes:
        return self  # it never changes: the target network reads the same tables


def read_header(obs: Tensor) -> tuple[Tensor, Tensor]:
    """Scene and breaks left, [B] int64 each."""
    numbers = obs[:, :HEADER].to(torch.int64)
    return numbers[:, 0] + 256 * numbers[:, 1], numbers[:, 2] + 256 * numbers[:, 3]
