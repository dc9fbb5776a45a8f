"""Your own network, in one file. In this folder:

    flashdqn train snake-flood --network own_network:Gated --network.kwargs '{"width": 96}'
    flashdqn train snake-grid --network own_network:Rays --env.size 6 --algo rainbow

A torso is any `torch.nn.Module` that is made from the observation's shape, says how many `features` it gives, and
turns [B, *shape] into [B, features]. Heads, dueling streams and noise come after it, as with our own torsos.
`python examples/own_network.py` builds both and prints their sizes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Gated(nn.Module):
    """Layers whose output is added to their input, scaled by a gate: for vectors of features."""

    def __init__(self, shape: tuple[int, ...], width: int = 128, depth: int = 2) -> None:
        super().__init__()
        self.features = width
        self.read = nn.Linear(shape[0], width)
        self.change = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.gate = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, obs: Tensor) -> Tensor:
        """[B, F] → [B, features]."""
        x = torch.relu(self.read(obs))
        for change, gate in zip(self.change, self.gate, strict=True):
            x = x + torch.sigmoid(gate(x)) * torch.relu(change(x))
        return x


class Rays(nn.Module):
    """Whole rows and columns at once, beside a 3x3 convolution: for boards, where cells in line matter."""

    def __init__(self, shape: tuple[int, ...], channels: int = 16, width: int = 128) -> None:
        super().__init__()
        planes, height, columns = shape
        self.features = width
        self.near = nn.Conv2d(planes, channels, 3, padding=1)
        self.across = nn.Conv2d(planes, channels, (1, columns))
        self.down = nn.Conv2d(planes, channels, (height, 1))
        self.join = nn.Linear(channels * (height * columns + height + columns), width)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, C, H, W] → [B, features]. Bytes arrive as numbers from 0 to 1."""
        parts = [layer(obs).flatten(1) for layer in (self.near, self.across, self.down)]
        return torch.relu(self.join(torch.relu(torch.cat(parts, 1))))


if __name__ == "__main__":
    for torso, shape in ((Gated((14,)), (14,)), (Rays((3, 10, 10)), (3, 10, 10))):
        size = sum(parameter.numel() for parameter in torso.parameters())
        made = torso(torch.zeros(5, *shape))
        print(f"{type(torso).__name__}: {list(shape)} -> {list(made.shape[1:])}, {size:,} weights")
