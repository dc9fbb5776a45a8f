"""Fuel breaks again, naively: sets, lists, and all fires from scratch after every break.

It shares the fire with the compiled boards (which has a twin of its own, in tests/envs/fire), but always burns
it anew, and nothing else of their code; it draws the same random numbers in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from snake_twin import PlainRandom

from flashdqn.envs.fuelbreaks import FuelBreaksConfig
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread
from flashdqn.envs.fuelbreaks.scenes import Scenes


@dataclass
class TwinBoard:
    config: FuelBreaksConfig
    scenes: Scenes
    split: tuple[int, int]
    random: PlainRandom
    breaks: set[int] = field(default_factory=set)
    over: bool = True

    def __post_init__(self) -> None:
        self.fire = Spread(self.scenes.spread, 1, self.config.fires, self.config.duration)

    def start(self) -> None:
        first, end = self.split
        self.scene = first + self.random.below(end - first)
        fewest = self.config.fewest_breaks
        self.left = fewest + self.random.below(self.config.most_breaks - fewest + 1)
        self.starts = self.scenes.places[self.scene, : int(self.scenes.counts[self.scene])].tolist()
        self.free = [c for c, may in enumerate(self.scenes.placeable[self.scene].tolist()) if may]
        self.worth = self.scenes.stakes[self.scene // len(self.scenes.weathers)].worth(
            self.scenes.landscapes[0].shape
        )
        given = [row * self.config.size + column for row, column in self.config.read_ignitions()]
        self.ignitions = [
            given[f % len(given)] if given else self.starts[self.random.below(len(self.starts))]
            for f in range(self.config.fires)
        ]
        if given:
            self.random.counter += self.config.fires
        self.breaks, self.over = set(), False
        self.first = self.now = self.burn()

    def step(self, action: int) -> tuple[float, bool]:
        """Reward and end; a new episode where the last one is over."""
        if self.over:
            self.start()
            return 0.0, False
        self.left -= 1
        if action in self.legal():
            self.breaks.add(action)
        before, self.now = self.now, self.burn()
        self.over = self.left == 0
        area = self.config.fires * int(self.worth.sum())
        if self.config.reward == "remaining":
            area = max(before, 1)
        return float(np.float32(100 * (before - self.now)) / np.float32(area)), self.over

    def legal(self) -> set[int]:
        return set(self.free) - self.breaks

    def burn(self) -> int:
        """The worth of burned cells, all fires together."""
        self.fire.table.fill_(self.scene)
        self.fire.ignition.copy_(torch.tensor([self.ignitions]))
        self.fire.breaks.zero_()
        for cell in self.breaks:
            self.fire.breaks[0, cell] = True
        self.fire.command.fill_(BURN)
        self.fire.launch()
        return int((torch.isfinite(self.fire.arrival[0]) * torch.from_numpy(self.worth)).sum())
