"""The observation in two forms: a few bytes for the ring, and fourteen planes for the network.

For a 50x50 landscape the planes take 140 KB, and only the breaks and the budget ever change. So an
observation is stored as

    bytes 0, 1    the scene: landscape · weathers + weather     (low byte first)
    bytes 2, 3    breaks left in the budget
    bytes 4 …     the breaks, a bit for each cell: cell c is bit c mod 8 of byte 4 + c div 8

which is 317 bytes. The network's first step looks up the rest in tables on its device. The planes, in order:

     0 slope          4 canopy bulk density   8 intensity to the north   12 breaks so far
     1 aspect         5 canopy base height    9 … to the east            13 budget left
     2 elevation      6 canopy height        10 … to the south
     3 canopy cover   7 fuel model           11 … to the west

Where a break is, the fuel model is 91 and no fire goes anywhere.
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

HEADER = 4
CHANNELS = (
    *LAYERS,
    "intensity_north",
    "intensity_east",
    "intensity_south",
    "intensity_west",
    "breaks",
    "budget",
)
FUEL, FIRST_INTENSITY, LAST_INTENSITY = 7, 8, 11

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


def stored_obs_spec(cells: int) -> ObsSpec:
    """The specification of the stored observation."""
    return ObsSpec((HEADER + (cells + 7) // 8,), torch.uint8)


def layer_planes(landscape: Landscape) -> NDArray[np.float32]:
    """The eight layers as the network reads them, [8, H, W]."""
    planes = []
    for layer in LAYERS:
        values = getattr(landscape, layer).astype(np.float64)
        if layer == "fuel_model":
            planes.append(fuel_share(landscape.fuel_model))
            continue
        if layer == "elevation":
            values = values - values.mean()
        planes.append((values / UNITS[layer]).astype(np.float32))
    return np.stack(planes)


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


#: Layers [L, 8, H, W] by landscape; intensities [S, 4, H, W] and burnable cells [S, H · W] by scene; bits 0 … 7.
Tables = tuple[Tensor, Tensor, Tensor, Tensor]


class Planes:
    """The decoder from bytes to planes, with its tables on every device that needs them."""

    def __init__(self, layers: Tensor, intensities: Tensor, burnable: Tensor) -> None:
        """Layers [L, 8, H, W] by landscape; intensities [S, 4, H, W] and burnable cells [S, H · W] by scene."""
        self.size = layers.shape[2:]
        self.shape = (len(CHANNELS), *self.size)
        self.weathers = len(intensities) // len(layers)
        self.cells = int(self.size.numel())
        self.device = layers.device
        shifts = torch.arange(8, dtype=torch.uint8, device=self.device)
        self._own = layers, intensities, burnable, shifts
        self._copies: dict[torch.device, Tables] = {}

    def __call__(self, obs: Tensor) -> Tensor:
        """[B, bytes] → [B, 14, H, W] float32."""
        layers, intensities, _, shifts = self.tables(obs.device)
        scene, left = read_header(obs)
        breaks = self._breaks(obs, shifts).view(-1, 1, *self.size).to(torch.float32)
        standing = 1.0 - breaks
        known = layers[scene // self.weathers]
        known = torch.cat((known[:, :FUEL], known[:, FUEL:] * standing), 1)
        share = left.to(torch.float32) / (FULL_BUDGET * self.cells)
        budget = share.view(-1, 1, 1, 1).expand_as(breaks)
        return torch.cat((known, intensities[scene] * standing, breaks, budget), 1)

    def check(self, obs: Tensor) -> None:
        """Refuse observations, [B, bytes], of a scene that there is not: its number is an index."""
        scene, _ = read_header(obs)
        require_range("the scene of an observation", scene, 0, len(self._own[1]) - 1)

    def legal(self, obs: Tensor) -> Tensor:
        """[B, bytes] → [B, H · W] bool: cells that burn and do not hold a break."""
        _, _, burnable, shifts = self.tables(obs.device)
        scene, _ = read_header(obs)
        return burnable[scene] & ~self._breaks(obs, shifts).view(-1, self.cells)

    def _breaks(self, obs: Tensor, shifts: Tensor) -> Tensor:
        bits = (obs[:, HEADER:, None] >> shifts) & 1  # [B, bytes, 8]
        return bits.flatten(1)[:, : self.cells].to(torch.bool)

    def tables(self, device: torch.device) -> Tables:
        """Layers, intensities, burnable cells and bit numbers, on a device."""
        if device == self.device:
            return self._own
        if device not in self._copies:
            layers, intensities, burnable, shifts = (table.to(device) for table in self._own)
            self._copies[device] = layers, intensities, burnable, shifts
        return self._copies[device]

    def __deepcopy__(self, memo: Any) -> Planes:
        return self  # it never changes: the target network reads the same tables


def read_header(obs: Tensor) -> tuple[Tensor, Tensor]:
    """Scene and breaks left, [B] int64 each."""
    numbers = obs[:, :HEADER].to(torch.int64)
    return numbers[:, 0] + 256 * numbers[:, 1], numbers[:, 2] + 256 * numbers[:, 3]
