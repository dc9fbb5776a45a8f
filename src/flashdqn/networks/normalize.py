"""Observations normalized by their running mean and deviation, as part of the network: saved with its weights, and
exported with it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.core.contract import Decoder, ObsSpec
from flashdqn.core.errors import ConfigError
from flashdqn.core.saved import require_everywhere, require_finite

#: A normalized number is at most this many deviations from the mean.
MOST = 10.0


class ObsNormalizer(nn.Module):
    """(x − mean) / deviation for each number of an observation, clipped to ±10.

    The statistics begin as those of a single observation with mean 0 and variance 1, and `update` merges batches
    into them (Chan et al. 1979). All roles of a network share one object, so that the target network
    reads the same numbers.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor
    #: the processes of a training: all have the statistics of all their observations
    ranks: Ranks = ALONE

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("squares", torch.ones(shape, dtype=torch.float64))

    def __deepcopy__(self, memo: object) -> ObsNormalizer:
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        require_everywhere(self.count >= 1, "network.normalize has counted less than one observation")
        require_everywhere(self.squares >= 0, "network.normalize has a variance below 0")
        for name in ("count", "mean", "squares"):
            require_finite(f"network.normalize: {name}", getattr(self, name))

    def forward(self, obs: Tensor) -> Tensor:
        """[B, *shape] → the same, normalized."""
        scale = torch.rsqrt(self.squares / self.count + 1e-8).to(torch.float32)
        return ((obs - self.mean.to(torch.float32)) * scale).clamp(-MOST, MOST)

    @torch.no_grad()
    def update(self, obs: Tensor) -> None:
        """Merge observations, [B, *shape], into the statistics, in place."""
        values, number = obs.to(torch.float64), len(obs) * self.ranks.world
        mean = values.mean(0)
        self.ranks.average_(mean)
        difference, total = mean - self.mean, self.count + number
        squares = (values - mean).square().sum(0)
        self.ranks.sum_(squares)
        self.squares.add_(squares + difference.square() * (self.count * number / total))
        self.mean.add_(difference * (number / total))
        self.count.copy_(total)


def make_normalizer(obs_spec: ObsSpec, decoder: Decoder | None) -> ObsNormalizer:
    """A normalizer for observations of numbers; bytes are refused."""
    if decoder is not None or not obs_spec.dtype.is_floating_point:
        raise ConfigError(
            "network.normalize is for observations of numbers, and these are bytes, which are read as 0 … 1 "
            "already: leave it out."
        )
    return ObsNormalizer(obs_spec.shape)
