"""A torso for observations in parts, as a Dict or a Tuple gives them: layers for each part, then an MLP over all.

An image goes through convolutions, those of the Nature paper if it is large enough, and then through a layer of
`width`. A vector goes through a layer of `width`, and so does the one-hot vector of a Discrete: there, the layer's
columns are the embeddings of the numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flashdqn.core.contract import ObsPart
from flashdqn.core.errors import ConfigError
from flashdqn.networks.pixels import Nature, is_screen
from flashdqn.networks.torsos import CNN, MLP, MakeLinear


class PartNetworks(nn.Module):
    """One network for each part, and an MLP for their joined features."""

    def __init__(
        self,
        parts: tuple[ObsPart, ...],
        channels: tuple[int, ...],
        width: int,
        hidden: tuple[int, ...],
        layer_norm: bool,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        if not parts:
            raise ConfigError(
                "The torso 'parts' is for Dict and Tuple observations that hold an image or a large Discrete, and "
                "these are not: use --network.torso auto."
            )
        self.shapes = [part.shape for part in parts]
        self.sizes = [part.size for part in parts]
        self.readers = nn.ModuleList(
            make_part_reader(part, channels, width, layer_norm, linear) for part in parts
        )
        self.mlp = MLP((width * len(parts),), hidden, layer_norm, linear)
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """[B, all numbers of all parts] → [B, features]."""
        pieces = torch.split(obs, self.sizes, 1)
        read = [
            reader(piece.reshape(-1, *shape))
            for reader, piece, shape in zip(self.readers, pieces, self.shapes, strict=True)
        ]
        return self.mlp(torch.cat(read, 1))  # type: ignore[no-any-return]


def make_part_reader(
    part: ObsPart, channels: tuple[int, ...], width: int, layer_norm: bool, linear: MakeLinear
) -> nn.Module:
    """The layers of one part: [B, *shape] → [B, width]."""
    if part.kind != "image":
        return MLP(part.shape, (width,), layer_norm, linear)
    if is_screen(part.shape):
        return Nature(part.shape, (width,), layer_norm, linear)
    return CNN(part.shape, channels, (width,), layer_norm, linear)
