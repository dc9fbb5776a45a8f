"""What the network sees of a window: the observation of the environment, made for any rectangle of a landscape.

The planes come from the environment's own decoder (`envs/fuelbreaks/observation.py`), which reads the few bytes
that change: the breaks, and the budget left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flashdqn.envs.fuelbreaks.fire.behavior import joint_behavior
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.observation import CHANNELS, HEADER, Planes, layer_planes, scene_planes
from flashdqn.envs.fuelbreaks.stakes import Stakes
from flashdqn.planning.ground import Ground, cut_landscape, cut_stakes
from flashdqn.planning.tiles import MapWindow

#: Planes of `scene_planes`: from the first intensity to the last plane before the breaks.
SCENE_PLANES = CHANNELS.index("breaks") - CHANNELS.index("intensity_north")
#: The budget takes two bytes.
MOST_LEFT = 65_535


class WindowView:
    """One window in all scenarios."""

    def __init__(self, ground: Ground, window: MapWindow, flow: bool = False) -> None:
        """`flow`: the network also sees what burns behind each cell."""
        problem = ground.problem
        self.shape, self.scenarios = window.shape, len(problem.scenarios)
        self.cells = self.shape[0] * self.shape[1]
        land = cut_landscape(problem.landscape, window.rows, window.columns)
        stakes = cut_stakes(problem.stakes, window.rows, window.columns)
        self.burnable = cut_cells(ground.burnable, problem.landscape.shape, window)  # [S, cells]
        self.importance = self._find_importance(ground, stakes)
        planes = self._make_planes(ground, land, self._drop_empty_maps(stakes))
        self.planes = planes.with_flow() if flow else planes

    def _find_importance(self, ground: Ground, stakes: Stakes) -> NDArray[np.float64]:
        """What a percent of the window's loss is in each scenario, [S]: fires that start in it, times what it
        holds. Values of windows are comparable after this factor."""
        held = self.cells if stakes.value is None else float(stakes.value.sum())
        lit = self.burnable.astype(np.float64)
        if stakes.ignition is not None:
            lit = lit * stakes.ignition.reshape(-1)
        importance: NDArray[np.float64] = held / ground.total_weight * lit.sum(1) / ground.ignition_totals
        return importance

    def _drop_empty_maps(self, stakes: Stakes) -> Stakes:
        """Maps that are 0 in the whole window say nothing: its importance is 0 then."""
        value = None if stakes.value is None or not stakes.value.any() else stakes.value
        lit = stakes.ignition is not None and all(
            stakes.ignition.reshape(-1)[burnable].any() for burnable in self.burnable if burnable.any()
        )
        return Stakes(value, stakes.ignition if lit else None, stakes.forbidden)

    def _make_planes(self, ground: Ground, land: Landscape, stakes: Stakes) -> Planes:
        layers = torch.from_numpy(layer_planes(land, stakes)[None])
        scenes = torch.zeros(self.scenarios, SCENE_PLANES, *self.shape)  # where nothing burns they stay 0
        for s, scenario in enumerate(ground.problem.scenarios):
            if self.burnable[s].any():
                behavior = joint_behavior([land], scenario.weather)
                scenes[s] = torch.from_numpy(scene_planes(behavior, stakes))
        return Planes(layers, scenes, torch.from_numpy(self.burnable))

    def observe(
        self, breaks: NDArray[np.bool_], share: float, flow: NDArray[np.uint8] | None = None
    ) -> Tensor:
        """The planes with these breaks, [cells] of the window, and a budget left for a `share` of all cells:
        [S, channels, H, W]. `flow`: [S, cells], what burns behind each cell."""
        left = int(np.clip(round(share * self.cells), 1, MOST_LEFT))
        bits = np.packbits(breaks, bitorder="little")
        obs = np.zeros((self.scenarios, HEADER + len(bits)), dtype=np.uint8)
        scene = np.arange(self.scenarios)
        obs[:, 0], obs[:, 1], obs[:, 2], obs[:, 3] = scene % 256, scene // 256, left % 256, left // 256
        obs[:, HEADER:] = bits
        if flow is not None:
            obs = np.concatenate((obs, flow), axis=1)
        return self.planes(torch.from_numpy(obs))


def cut_cells(flat: NDArray[Any], shape: tuple[int, int], window: MapWindow) -> NDArray[Any]:
    """A window's cells, [..., cells of the window], out of all cells, [..., cells]."""
    grid = flat.reshape(*flat.shape[:-1], *shape)[..., window.rows, window.columns]
    return np.ascontiguousarray(grid).reshape(*flat.shape[:-1], -1)
