"""Settings of the Q-network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from flashdqn.config.values import require
from flashdqn.core.ranges import Between, check_values, describe_value
from flashdqn.core.suggestions import suggest_close
from flashdqn.core.user_code import Kwargs, check_json_serializable, names_code

#: The built-in torsos.
TORSOS = ("auto", "mlp", "cnn", "resnet", "nature", "impala", "branches", "parts", "cells")
#: The widths of layers, and how many layers.
WIDTHS = Between(1, 10**6, items=100)


@dataclass(frozen=True)
class NetworkConfig:
    """The Q-network."""

    torso: Annotated[
        str, tyro.conf.arg(metavar=f"{'|'.join(TORSOS)}|MODULE:CLASS", aliases=["--network"])
    ] = "auto"
    """What reads the observation; auto takes a CNN for planes, nature for large ones (screens), an MLP for vectors,
    and parts for a Dict or a Tuple with an image. resnet: residual blocks, for boards on a GPU. nature: the three
    convolutions of DQN. impala: IMPALA's residual network. branches: a vector in parts, each with its own layers.
    parts: the parts of a Dict or a Tuple that has an image, each with its own layers. cells: residual blocks that
    give one value for each cell of a grid, where the actions are the cells. module:Class: your own torso
    (docs/own-networks.md)."""
    kwargs: Kwargs = field(default_factory=dict)
    """Arguments for your own torso."""
    hidden: Annotated[tuple[int, ...], WIDTHS] = (128, 128)
    """Widths of the fully connected layers (cells: for each cell, with the same weights)."""
    channels: Annotated[tuple[int, ...], WIDTHS] = (32, 64, 64)
    """Channels of each convolution (cnn), or of each residual block (resnet, cells)."""
    width: Annotated[int, Between(1, 1000)] = 1
    """Factor on the paper's number of channels (impala)."""
    branches: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SHAPE:WIDTHS")] = ()
    """The parts of the observation and their layers (branches): 14:128,64 is 14 numbers through 128 and 64;
    6x13:64/64 is 6 rows of 13, a layer of 64 for every row, then one of 64 for all of them."""
    part_width: Annotated[int, Between(1, 10**6)] = 128
    """Width of the layer that each part of an observation ends with, before all are joined (parts)."""
    attention: Annotated[int, Between(0, 10_000)] = 0
    """Units of the attention that weighs the branches (branches), or heads of the attention over all cells after
    every block (cells); 0: none."""
    normalize: bool = False
    """Normalize every number of an observation by its running mean and deviation (not for bytes)."""
    layer_norm: bool = False
    """Normalize each fully connected layer before its ReLU, and in a resnet also the planes before theirs."""
    dueling: bool = False
    """Estimate value and advantage in separate streams. Each stream has its own last hidden layer."""
    noisy: bool = False
    """Add learned noise to the fully connected layers. It is drawn again at every gradient step, and is off in
    evaluation. ε still follows explore."""
    noisy_sigma: Annotated[float, Between(0, 1000)] = 0.5
    """σ₀, the initial size of the noise (noisy only)."""
    cosines: Annotated[int, Between(1, 100_000)] = 64
    """Number of cosines that embed a quantile's fraction (head iqn only)."""

    def __post_init__(self) -> None:
        check_values(self, "network.")
        require(
            self.torso in TORSOS or names_code(self.torso),
            f"network.torso must be one of {', '.join(TORSOS)}, or module:Class for your own, and is "
            f"{describe_value(self.torso)}{suggest_close(self.torso, TORSOS)}",
        )
        require(
            not self.kwargs or names_code(self.torso),
            f"network.kwargs are for your own torso, and network.torso is {describe_value(self.torso)}.",
        )
        check_json_serializable("network.kwargs", self.kwargs)
        for name in ("hidden", "channels"):
            widths = getattr(self, name)
            require(
                len(widths) > 0, f"network.{name} needs at least one width above 0, and is {list(widths)}."
            )
