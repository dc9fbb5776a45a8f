"""Torsos: from an observation to a vector of features."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from flashdqn.errors import ConfigError

#: Makes a fully connected layer of so many inputs and outputs: plain or noisy.
MakeLinear = Callable[[int, int], nn.Module]


class MLP(nn.Module):
    """Linear layers with ReLU; layer normalisation before each ReLU if asked for."""

    def __init__(
        self,
        shape: tuple[int, ...],
        hidden: tuple[int, ...],
        layer_norm: bool,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        width = int(torch.Size(shape).numel())
        self.layers, self.features = hidden_layers(width, hidden, layer_norm, linear)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, *shape] → [B, features]."""
        return self.layers(obs.flatten(1))  # type: ignore[no-any-return]


class CNN(nn.Module):
    """3x3 convolutions that keep the side, then an MLP. For small boards: [C, H, W] planes."""

    def __init__(
        self,
        shape: tuple[int, ...],
        channels: tuple[int, ...],
        hidden: tuple[int, ...],
        layer_norm: bool,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        if len(shape) != 3:
            raise ConfigError(
                f"The torso 'cnn' needs observations of shape [channels, height, width], and these are "
                f"{list(shape)}: use --network.torso mlp."
            )
        layers: list[nn.Module] = []
        width = shape[0]
        for size in channels:
            layers += [nn.Conv2d(width, size, kernel_size=3, padding=1), nn.ReLU()]
            width = size
        self.convolutions = nn.Sequential(*layers)
        self.mlp = MLP((width, *shape[1:]), hidden, layer_norm, linear)
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """[B, C, H, W] → [B, features]."""
        return self.mlp(self.convolutions(obs))  # type: ignore[no-any-return]


def hidden_layers(
    width: int, hidden: tuple[int, ...], layer_norm: bool, linear: MakeLinear
) -> tuple[nn.Sequential, int]:
    """Fully connected layers with ReLU over the last axis, and the width that they end with."""
    layers: list[nn.Module] = []
    for size in hidden:
        layers.append(linear(width, size))
        if layer_norm:
            layers.append(nn.LayerNorm(size))
        layers.append(nn.ReLU())
        width = size
    return nn.Sequential(*layers), width
