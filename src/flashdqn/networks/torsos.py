"""Torsos: from an observation to a vector of features."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flashdqn.core.errors import ConfigError
from flashdqn.networks.boards.torso import board_shape, compute_features, fits_boards
from flashdqn.networks.fused.fit import follows_plain
from flashdqn.networks.fused.operations import MOST_WIDTH, AddResidual, NormalizeCells, NormalizeRows

#: Makes a fully connected layer from its numbers of inputs and outputs: plain or noisy.
MakeLinear = Callable[[int, int], nn.Module]


class MLP(nn.Module):
    """Linear layers with ReLU; layer normalization before each ReLU if configured."""

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
        require_planes("cnn", shape)
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


class ResNet(nn.Module):
    """A 3x3 convolution and residual blocks that keep the side, then an MLP. For boards: [C, H, W] planes.

    One block for each entry of `channels`, its width; the first convolution has the width of the first block. He et
    al. 2016b, *Identity Mappings in Deep Residual Networks*, arXiv:1603.05027: only additions on the direct path;
    normalization (if configured) and ReLU before the convolutions and after the last block.

    Planes lie as [B, H, W, C] in memory, which tensor cores read best; their shape stays [B, C, H, W]. Small boards
    in bfloat16 on a Hopper GPU go through hand-written kernels (`networks/boards`), where `use_kernels` allowed it.
    """

    uses_kernels = False

    def __init__(
        self,
        shape: tuple[int, ...],
        channels: tuple[int, ...],
        hidden: tuple[int, ...],
        layer_norm: bool,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        require_planes("resnet", shape)
        self.board_shape = board_shape(shape, channels, layer_norm)
        self.stem = nn.Conv2d(shape[0], channels[0], kernel_size=3, padding=1)
        pairs = zip((channels[0], *channels), channels, strict=False)
        self.blocks = nn.Sequential(*(ResidualBlock(into, out, layer_norm) for into, out in pairs))
        self.norm = BoardNorm(channels[-1]) if layer_norm else nn.Identity()
        self.mlp = MLP((*shape[1:], channels[-1]), hidden, layer_norm, linear)
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """[B, C, H, W] → [B, features]."""
        if fits_boards(self, obs):
            return self.mlp(compute_features(self, obs))  # type: ignore[no-any-return]
        planes = to_planes(to_cells(obs).contiguous())
        planes = normalize_and_cut(self.norm, self.blocks(self.stem(planes)))
        return self.mlp(to_cells(planes))  # type: ignore[no-any-return]


class ResidualBlock(nn.Module):
    """x + convolution(ReLU(convolution(ReLU(x)))), with normalization before each ReLU if configured; where the
    width changes, x goes through a 1x1 convolution. Dilation d spaces the 3x3 cells of a convolution d apart.
    """

    def __init__(self, channels: int, width: int, layer_norm: bool, dilation: int = 1) -> None:
        super().__init__()
        self.skip = nn.Identity() if channels == width else nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = BoardNorm(channels) if layer_norm else nn.Identity()
        wide = {"kernel_size": 3, "padding": dilation, "dilation": dilation}
        self.convolution1 = nn.Conv2d(channels, width, **wide)  # type: ignore[arg-type]
        self.norm2 = BoardNorm(width) if layer_norm else nn.Identity()
        self.convolution2 = nn.Conv2d(width, width, **wide)  # type: ignore[arg-type]

    def start_as_skip(self) -> None:
        """Start as the identity: the observation reaches the MLP unmixed, at any depth."""
        nn.init.zeros_(self.convolution2.weight)
        if self.convolution2.bias is not None:
            nn.init.zeros_(self.convolution2.bias)

    def forward(self, planes: Tensor) -> Tensor:
        """[B, C, H, W] → [B, width, H, W]."""
        if fits_fused(self.norm1, planes):
            return self._forward_fused(planes)
        inner = self.convolution1(torch.relu(self.norm1(planes)))
        inner = self.convolution2(torch.relu(self.norm2(inner)))
        return self.skip(planes) + inner  # type: ignore[no-any-return]

    def _forward_fused(self, planes: Tensor) -> Tensor:
        """The same. The first convolution leaves its bias to the normalization, the second to the sum."""
        inner = convolve_without_bias(self.convolution1, normalize_and_cut(self.norm1, planes))
        inner = normalize_and_cut(self.norm2, inner, self.convolution1.bias)
        inner = convolve_without_bias(self.convolution2, inner)
        cells = to_cells(self.skip(planes)), to_cells(inner)
        return to_planes(AddResidual.apply(*cells, self.convolution2.bias))  # type: ignore[no-untyped-call]


class BoardNorm(nn.Module):
    """Normalize each sample over all its channels and cells together; then a scale and a shift for each channel.

    Over the board and not cell by cell, so the cell of the head keeps standing out among empty ones. It is
    GroupNorm with one group, computed as a layer normalization of cells. On CUDA, PyTorch's GroupNorm leaves its
    planes in the other memory format, and every convolution would have to convert them back.
    """

    fused_on: str | None = None  # the kind of device where it and the ReLU after it are one operation
    eps = 1e-5

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, planes: Tensor) -> Tensor:
        """[B, C, H, W] → the same."""
        cells = to_cells(planes)
        normal = F.layer_norm(cells, cells.shape[1:], eps=self.eps)
        return to_planes(torch.addcmul(self.bias, normal, self.weight))


def fits_fused(layer: nn.Module, x: Tensor) -> bool:
    """Whether a layer and what stands around it are one operation for these numbers: on the layer's own device."""
    return getattr(layer, "fused_on", None) == x.device.type and not follows_plain()


def normalize_and_cut(norm: nn.Module, planes: Tensor, shift: Tensor | None = None) -> Tensor:
    """ReLU(norm(planes + shift)), [B, C, H, W]; `shift` has a number for each channel."""
    if isinstance(norm, BoardNorm) and fits_fused(norm, planes):
        cells = NormalizeCells.apply(to_cells(planes), shift, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
        return to_planes(cells)
    return torch.relu(norm(planes if shift is None else planes + shift[:, None, None]))


def convolve_without_bias(layer: nn.Conv2d, planes: Tensor) -> Tensor:
    """The convolution; its bias is added elsewhere."""
    return F.conv2d(planes, layer.weight, None, layer.stride, layer.padding, layer.dilation)


def to_cells(planes: Tensor) -> Tensor:
    """[B, C, H, W] → [B, H, W, C], a view."""
    return planes.permute(0, 2, 3, 1)


def to_planes(cells: Tensor) -> Tensor:
    """[B, H, W, C] → [B, C, H, W], a view."""
    return cells.permute(0, 3, 1, 2)


def require_planes(torso: str, shape: tuple[int, ...]) -> None:
    """Refuse observations that are not a stack of planes."""
    if len(shape) != 3:
        raise ConfigError(
            f"The torso '{torso}' needs observations of shape [channels, height, width], and these are "
            f"{list(shape)}: use --network.torso mlp."
        )


class HiddenLayers(nn.Sequential):
    """Layers one after the other; layer normalization and ReLU are one operation where that works."""

    fused_on: str | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[…, inputs] → […, outputs]."""
        return apply_layers(list(self), x, fits_fused(self, x))


def apply_layers(layers: list[nn.Module], x: Tensor, fused: bool) -> Tensor:
    """Layers one after the other; if `fused`, layer normalization and the ReLU after it are one operation."""
    if not fused:
        for layer in layers:
            x = layer(x)
        return x
    for before, layer in zip([None, *layers], layers, strict=False):
        if isinstance(layer, nn.LayerNorm) and x.shape[-1] <= MOST_WIDTH:
            x = NormalizeRows.apply(x, layer.weight, layer.bias, layer.eps)  # type: ignore[no-untyped-call]
        elif not isinstance(before, nn.LayerNorm) or x.shape[-1] > MOST_WIDTH:
            x = layer(x)
    return x


def hidden_layers(
    width: int, hidden: tuple[int, ...], layer_norm: bool, linear: MakeLinear
) -> tuple[HiddenLayers, int]:
    """Fully connected layers with ReLU over the last axis, and the width that they end with."""
    layers: list[nn.Module] = []
    for size in hidden:
        layers.append(linear(width, size))
        if layer_norm:
            layers.append(nn.LayerNorm(size))
        layers.append(nn.ReLU())
        width = size
    return HiddenLayers(*layers), width
