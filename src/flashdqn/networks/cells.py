"""One value for every cell of a grid: a fully convolutional network, whose weights fit any size of grid.

Residual blocks of 3x3 convolutions read what lies near a cell, and in turn what lies farther away: their cells
are 1, 2, 4, 1, 2, 4 … apart (Yu & Koltun 2016, arXiv:1511.07122), so three blocks see 15 cells far.
Spatial attention gives every cell information about the whole grid: each head weighs all cells (softmax), and its
weighted sum is projected and added everywhere. That is the global context block of Cao et al. 2019
(arXiv:1904.11492) with several heads; its cost grows linearly with the number of cells.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flashdqn.core.errors import ConfigError
from flashdqn.networks.fused.operations import AddContext
from flashdqn.networks.outputs import apply_output_layer, make_stream
from flashdqn.networks.torsos import (
    BoardNorm,
    MakeLinear,
    ResidualBlock,
    fits_fused,
    hidden_layers,
    normalize_and_cut,
    require_planes,
    to_cells,
    to_planes,
)

#: The distance between the cells of a block's convolutions, block by block.
DILATIONS = (1, 2, 4)


class SpatialAttention(nn.Module):
    """x + W c, where c joins the heads' sums Σ_cells softmax(scores) · x. It starts as the identity."""

    fused_on: str | None = None

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.score = nn.Linear(channels, heads)
        self.tell = nn.Linear(heads * channels, channels)

    def start_as_skip(self) -> None:
        """Start as the identity: add nothing to any cell."""
        nn.init.zeros_(self.tell.weight)
        nn.init.zeros_(self.tell.bias)

    def forward(self, planes: Tensor) -> Tensor:
        """[B, C, H, W] → the same."""
        cells = to_cells(planes)
        flat = cells.flatten(1, 2)  # [B, N, C]
        weights = torch.softmax(self.score(flat).float(), 1).to(flat.dtype)  # [B, N, heads]
        context = torch.einsum("bnh,bnc->bhc", weights, flat).flatten(1)
        told = self.tell(context)
        if fits_fused(self, cells):
            return to_planes(AddContext.apply(cells, told))  # type: ignore[no-untyped-call]
        return to_planes(cells + told[:, None, None])


class CellNet(nn.Module):
    """A convolution, residual blocks with attention after each, and the same fully connected layers for all cells.

    One block for each entry of `channels`, as in `ResNet`; planes lie as [B, H, W, C] in memory.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        channels: tuple[int, ...],
        heads: int,
        hidden: tuple[int, ...],
        layer_norm: bool,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        require_planes("cells", shape)
        self.stem = nn.Conv2d(shape[0], channels[0], kernel_size=3, padding=1)
        blocks: list[nn.Module] = []
        for k, (into, out) in enumerate(zip((channels[0], *channels), channels, strict=False)):
            blocks.append(ResidualBlock(into, out, layer_norm, DILATIONS[k % len(DILATIONS)]))
            if heads:
                blocks.append(SpatialAttention(out, heads))
        self.blocks = nn.Sequential(*blocks)
        self.norm = BoardNorm(channels[-1]) if layer_norm else nn.Identity()
        self.each, self.features = hidden_layers(channels[-1], hidden, layer_norm, linear)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, C, H, W] → [B, H · W, features]."""
        planes = to_planes(to_cells(obs).contiguous())
        planes = normalize_and_cut(self.norm, self.blocks(self.stem(planes)))
        return self.each(to_cells(planes).flatten(1, 2))  # type: ignore[no-any-return]


class CellOutput(nn.Module):
    """The same layers for every cell: `size` numbers each."""

    answers_itself = True

    def __init__(
        self, features: int, hidden: tuple[int, ...], size: int, layer_norm: bool, linear: MakeLinear
    ) -> None:
        super().__init__()
        self.stream = make_stream(features, hidden, size, layer_norm, linear)

    def forward(self, cells: Tensor) -> Tensor:
        """[B, N, features] → [B, N · size]."""
        return apply_output_layer(self.stream, cells).flatten(1)


class CellDueling(nn.Module):
    """V + A − mean_cells A, for each of `size` numbers: V from the mean of all cells' features, A from each
    cell's."""

    answers_itself = True

    def __init__(
        self, features: int, hidden: tuple[int, ...], size: int, layer_norm: bool, linear: MakeLinear
    ) -> None:
        super().__init__()
        self.value = make_stream(features, hidden, size, layer_norm, linear)
        self.advantage = make_stream(features, hidden, size, layer_norm, linear)

    def forward(self, cells: Tensor) -> Tensor:
        """[B, N, features] → [B, N · size]."""
        value = apply_output_layer(self.value, cells.mean(1))[:, None]  # [B, 1, size]
        advantage = apply_output_layer(self.advantage, cells)  # [B, N, size]
        return (value + advantage - advantage.mean(1, keepdim=True)).flatten(1)


def require_cells(shape: tuple[int, ...], num_actions: int, implicit: bool) -> None:
    """Refuse tasks whose actions are not the cells of a grid, and heads that do not work cell by cell."""
    require_planes("cells", shape)
    if num_actions != shape[1] * shape[2]:
        raise ConfigError(
            f"The torso 'cells' gives one value for each of {shape[1]} x {shape[2]} cells, and the task has "
            f"{num_actions} actions: use --network.torso resnet."
        )
    if implicit:
        raise ConfigError(
            "The torso 'cells' does not go with learn.head iqn, whose fractions multiply one vector of "
            "features: use "
            "--learn.head quantile, or --network.torso resnet."
        )
