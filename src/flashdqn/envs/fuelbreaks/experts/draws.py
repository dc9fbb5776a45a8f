"""Fires of an expert's own: it does not know where the environment's fires start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from flashdqn.envs.fuelbreaks.scenes import Scenes


def draw_ignitions(scenes: Scenes, scene: Tensor, fires: int, generator: torch.Generator) -> Tensor:
    """Random ignitions for each board's scene, [N, fires]; some may hold a break, and burn nothing."""
    which = scene.to(torch.int64)
    size = (len(which), fires)
    share = torch.rand(size, generator=generator, device=which.device, dtype=torch.float64)
    nth = (share * scenes.counts[which][:, None]).to(torch.int64)
    return scenes.places[which].gather(1, nth)
