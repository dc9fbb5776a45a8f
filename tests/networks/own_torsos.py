"""Torsos of a user's, good and bad."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Good(nn.Module):
    """Begins with weights of its own: all equal but for a random sign."""

    def __init__(self, shape: tuple[int, ...], width: int = 8, scale: float = 0.1) -> None:
        super().__init__()
        self.features = width
        self.layer = nn.Linear(int(torch.Size(shape).numel()), width)
        signs = torch.randint(0, 2, self.layer.weight.shape).float() * 2 - 1
        with torch.no_grad():
            self.layer.weight.copy_(scale * signs)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.relu(self.layer(obs.flatten(1)))


class Bad(nn.Module):
    """Wrong in the way that is asked for."""

    def __init__(self, shape: tuple[int, ...], how: str) -> None:
        super().__init__()
        self.how = how
        self.layer = nn.Linear(shape[0], 8)
        self.features: Any = {"no features": None, "a text": "8", "wrong width": 9}.get(how, 8)
        if how == "raises":
            raise ValueError("no luck")
        if how == "batch norm":
            self.norm = nn.BatchNorm1d(8)
        if how == "dropout":
            self.drop = nn.Dropout()
        if how == "double":
            self.double()

    def forward(self, obs: Tensor) -> Any:
        if self.how == "forward raises":
            raise ValueError("no luck")
        out = self.layer(obs)
        return {"a tuple": (out, out), "three axes": out[:, None]}.get(self.how, out)


def no_module(shape: tuple[int, ...]) -> int:
    return 3
