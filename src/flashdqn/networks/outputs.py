"""Output layers: from features to the numbers that the head reads, `size` of them per action."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from flashdqn.networks.fused.fit import follows_plain
from flashdqn.networks.noisy import NoisyLinear
from flashdqn.networks.torsos import MakeLinear, apply_layers, fits_fused, hidden_layers


def make_stream(
    features: int, hidden: tuple[int, ...], outputs: int, layer_norm: bool, linear: MakeLinear
) -> nn.Module:
    """The stream's own hidden layers, if any, and a linear layer: […, features] → […, outputs]."""
    layers, width = hidden_layers(features, hidden, layer_norm, linear)
    output = linear(width, outputs)
    return Stream(*layers, output) if hidden else output


class Stream(nn.Sequential):
    """Hidden layers, and a last one that computes in float32."""

    answers_itself = True
    fused_on: str | None = None

    def forward(self, features: Tensor) -> Tensor:
        """[…, features] → […, outputs]."""
        return self.finish(self[0](features))

    def finish(self, numbers: Tensor) -> Tensor:
        """What follows the first layer."""
        _, *hidden, output = self
        return apply_output_layer(output, apply_layers(hidden, numbers, fits_fused(self, numbers)))


def apply_output_layer(output: nn.Module, features: Tensor) -> Tensor:
    """The numbers that the head reads, always in float32: values near 5 are 0.03 apart in bfloat16, and actions are
    often closer."""
    itself = getattr(output, "answers_itself", False)  # it has layers, and does this at its last one
    if itself or not torch.is_autocast_enabled(features.device.type):
        return output(features)  # type: ignore[no-any-return]
    with torch.autocast(features.device.type, enabled=False):
        return output(features.float())  # type: ignore[no-any-return]


@torch.no_grad()
def add_to_biases(output: nn.Module, start: Tensor) -> None:
    """Add to the biases of an output, the same for every action: [size]. Where there is a value stream, to its."""
    stream = getattr(output, "value", getattr(output, "stream", output))
    last = stream[-1] if isinstance(stream, nn.Sequential) else stream
    bias = last.bias_mean if isinstance(last, NoisyLinear) else last.bias
    assert isinstance(bias, Tensor)
    bias.view(-1, len(start)).add_(start.to(bias.device))


def can_join(one: nn.Module, other: nn.Module, features: Tensor) -> bool:
    """Whether two streams should read the features in one product: on a GPU in bfloat16, where the features' own
    gradient is then one product too, and not a sum of two large tensors."""
    if features.device.type != "cuda" or not torch.is_autocast_enabled("cuda"):
        return False
    return all(isinstance(stream, Stream) and type(stream[0]) is nn.Linear for stream in (one, other))


def join_rounded(weights: list[Tensor], dtype: torch.dtype) -> Tensor:
    """Matrices below each other, in another format: in one pass where no gradient follows."""
    if torch.is_grad_enabled() or follows_plain():
        return torch.cat([weight.to(dtype) for weight in weights])
    rows = sum(len(weight) for weight in weights)
    joined = torch.empty((rows, weights[0].shape[1]), dtype=dtype, device=weights[0].device)
    return torch.cat(weights, out=joined)


def apply_joined(one: Stream, other: Stream, features: Tensor) -> tuple[Tensor, Tensor]:
    """What both streams make of the features; their first layers are one product."""
    first: list[Any] = [one[0], other[0]]
    kind = features.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else first[0].weight.dtype
    weight = join_rounded([layer.weight for layer in first], dtype)
    bias = torch.cat([layer.bias for layer in first])
    joined = nn.functional.linear(features, weight, bias)
    width = first[0].out_features
    return one.finish(joined[..., :width]), other.finish(joined[..., width:])


class Dueling(nn.Module):
    """Value and advantage streams: V + A − mean_a A (Wang et al. 2016, eq. 9), for each of `size` numbers.

    With a distributional head these are every atom's logit or every quantile, as in Rainbow (Hessel et al. 2018).
    """

    answers_itself = True

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...],
        num_actions: int,
        size: int,
        layer_norm: bool,
        linear: MakeLinear,
    ) -> None:
        super().__init__()
        self.shape = (num_actions, size)
        self.value = make_stream(features, hidden, size, layer_norm, linear)
        self.advantage = make_stream(features, hidden, num_actions * size, layer_norm, linear)

    def forward(self, features: Tensor) -> Tensor:
        """[…, features] → […, A · size]."""
        if can_join(self.value, self.advantage, features):
            value, advantage = apply_joined(self.value, self.advantage, features)  # type: ignore[arg-type]
        else:
            value = apply_output_layer(self.value, features)
            advantage = apply_output_layer(self.advantage, features)
        value = value.unsqueeze(-2)  # […, 1, size]
        advantage = advantage.view(*advantage.shape[:-1], *self.shape)  # […, A, size]
        centered = advantage - advantage.mean(-2, keepdim=True)
        return (value + centered).flatten(-2)


class BranchingDueling(nn.Module):
    """One value stream, and an advantage stream for each branch of an action: V + A_d − mean_a A_d (Tavakoli et al.
    2018, eq. 1), branch after branch, for each of `size` numbers."""

    answers_itself = True

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...],
        branches: tuple[int, ...],
        size: int,
        layer_norm: bool,
        linear: MakeLinear,
    ) -> None:
        super().__init__()
        self.size = size
        self.value = make_stream(features, hidden, size, layer_norm, linear)
        self.advantages = nn.ModuleList(
            make_stream(features, hidden, count * size, layer_norm, linear) for count in branches
        )

    def forward(self, features: Tensor) -> Tensor:
        """[…, features] → […, A · size], with A choices in all branches."""
        value = apply_output_layer(self.value, features).unsqueeze(-2)  # […, 1, size]
        parts = []
        for stream in self.advantages:
            advantage = apply_output_layer(stream, features)
            advantage = advantage.view(*advantage.shape[:-1], -1, self.size)  # […, A_d, size]
            parts.append(value + advantage - advantage.mean(-2, keepdim=True))
        return torch.cat(parts, -2).flatten(-2)
