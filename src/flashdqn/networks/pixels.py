"""Torsos for screens of video games: the one of the Nature paper, and IMPALA's residual one.

Both read [C, H, W] planes of at least 36 pixels a side; the papers have 84x84 with four gray frames. The planes lie
channels-last in memory. Tensor cores read that best, and it makes IMPALA's faster on a CPU too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flashdqn.core.errors import ConfigError
from flashdqn.networks.torsos import MLP, MakeLinear, require_planes

#: The shortest side for which the Nature network has any output.
LEAST_SIDE = 36


class Nature(nn.Module):
    """32 filters of 8x8 at stride 4, 64 of 4x4 at stride 2, 64 of 3x3 (Mnih et al. 2015), then an MLP: theirs has
    512 units. For 84x84x4 that makes 1,684,128 parameters, without the output layer."""

    def __init__(
        self,
        shape: tuple[int, ...],
        hidden: tuple[int, ...],
        layer_norm: bool,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        require_screen("nature", shape)
        self.convolutions = nn.Sequential(
            nn.Conv2d(shape[0], 32, kernel_size=8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, kernel_size=3),
            nn.ReLU(),
        )
        rows, columns = (((side - 8) // 4 + 1 - 4) // 2 + 1 - 2 for side in shape[1:])
        self.mlp = MLP((64, rows, columns), hidden, layer_norm, linear)
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """[B, C, H, W] → [B, features]."""
        return self.mlp(self.convolutions(to_channels_last(obs)))  # type: ignore[no-any-return]


class Impala(nn.Module):
    """IMPALA's deep network (Espeholt et al. 2018, figure 3, without the LSTM): three stages of a convolution, a
    pooling that halves the side, and two residual blocks; then ReLU and an MLP, theirs of 256 units.

    The stages have 16, 32 and 32 channels, times `width`.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        width: int,
        hidden: tuple[int, ...],
        layer_norm: bool,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        require_screen("impala", shape)
        stages: list[nn.Module] = []
        channels, rows, columns = shape
        for size in (16 * width, 32 * width, 32 * width):
            stages.append(ImpalaStage(channels, size))
            channels, rows, columns = size, (rows + 1) // 2, (columns + 1) // 2
        self.stages = nn.Sequential(*stages)
        self.mlp = MLP((channels, rows, columns), hidden, layer_norm, linear)
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """[B, C, H, W] → [B, features]."""
        return self.mlp(torch.relu(self.stages(to_channels_last(obs))))  # type: ignore[no-any-return]


class ImpalaStage(nn.Module):
    """A convolution, a 3x3 maximum at stride 2, and two residual blocks."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, size, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.blocks = nn.Sequential(ImpalaBlock(size), ImpalaBlock(size))

    def forward(self, planes: Tensor) -> Tensor:
        """[B, C, H, W] → [B, size, ⌈H/2⌉, ⌈W/2⌉]."""
        return self.blocks(self.pool(self.convolution(planes)))  # type: ignore[no-any-return]


class ImpalaBlock(nn.Module):
    """x + convolution(ReLU(convolution(ReLU(x))))."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(size, size, kernel_size=3, padding=1)
        self.convolution2 = nn.Conv2d(size, size, kernel_size=3, padding=1)

    def forward(self, planes: Tensor) -> Tensor:
        """[B, C, H, W] → the same."""
        inner = self.convolution1(torch.relu(planes))
        return planes + self.convolution2(torch.relu(inner))  # type: ignore[no-any-return]


def to_channels_last(planes: Tensor) -> Tensor:
    """The same planes, channels-last in memory."""
    return planes.contiguous(memory_format=torch.channels_last)


def is_screen(shape: tuple[int, ...]) -> bool:
    """Whether observations are planes large enough for these torsos."""
    return len(shape) == 3 and min(shape[1:]) >= LEAST_SIDE


def require_screen(torso: str, shape: tuple[int, ...]) -> None:
    """Refuse planes that are too small."""
    require_planes(torso, shape)
    if not is_screen(shape):
        raise ConfigError(
            f"The torso '{torso}' is for screens of at least {LEAST_SIDE}x{LEAST_SIDE} pixels, and these are "
            f"{shape[1]}x{shape[2]}: use --network.torso cnn or resnet."
        )
