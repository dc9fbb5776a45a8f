"""Settings of the Q-network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from flashdqn.config.values import require


@dataclass(frozen=True)
class NetworkConfig:
    """The Q-network."""

    torso: Literal["auto", "mlp", "cnn", "resnet", "branches"] = "auto"
    """What reads the observation; auto takes a CNN for planes and an MLP for vectors. resnet: residual blocks, for
    boards on a GPU. branches: a vector in parts, each with layers of its own."""
    hidden: tuple[int, ...] = (128, 128)
    """Widths of the fully connected layers."""
    channels: tuple[int, ...] = (32, 64, 64)
    """Channels of each convolution (cnn), or of each residual block (resnet)."""
    branches: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SHAPE:WIDTHS")] = ()
    """The parts of the observation and their layers (branches): 14:128,64 is 14 numbers through 128 and 64;
    6x13:64/64 is 6 rows of 13, a layer of 64 for every row, then one of 64 for all of them."""
    attention: int = 0
    """Units of the attention that weighs the branches; 0: none (branches)."""
    layer_norm: bool = False
    """Normalise each fully connected layer before its ReLU, and in a resnet the planes before theirs."""
    dueling: bool = False
    """Value and advantage in streams of their own; the last hidden layer belongs to the streams."""
    noisy: bool = False
    """Learned noise on the fully connected layers, resampled at every gradient step; off in evaluation. ε stays
    as explore has it."""
    noisy_sigma: float = 0.5
    """σ₀, the initial size of the noise (noisy only)."""
    cosines: int = 64
    """Cosines that embed a quantile's fraction (head iqn only)."""

    def __post_init__(self) -> None:
        for name in ("hidden", "channels"):
            widths = getattr(self, name)
            require(
                len(widths) > 0 and min(widths) > 0,
                f"network.{name} needs at least one width above 0, and is {list(widths)}.",
            )
        require(self.attention >= 0, f"network.attention must not be negative, and is {self.attention}.")
        require(self.noisy_sigma >= 0, f"network.noisy_sigma must not be negative: {self.noisy_sigma}.")
        require(self.cosines > 0, f"network.cosines must be above 0, and is {self.cosines}.")
