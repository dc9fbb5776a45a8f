"""A torso of branches: an observation in parts, each read by its own layers, then weighted and joined.

A branch is described as `SHAPE:WIDTHS`, in the order of the observation's numbers:

    14:128,64       14 numbers through layers of 128 and 64
    6x13:64/64      6 rows of 13: a layer of 64 for every row, with the same weights; then one of 64 for all rows
    6x13:64/        the same without the second layer: 384 numbers

The network of Onsu et al. 2024 (IEEE Networking Letters 6(3)) is `14:128,64 6x13:64/64 6x10:64/64`, attention 128,
hidden 256 128 64.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flashdqn.config.network import WIDTHS
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value, format_bound
from flashdqn.networks.torsos import MLP, MakeLinear, hidden_layers

_FORM = re.compile(r"([0-9]{1,9})(?:x([0-9]{1,9}))?:([0-9,]*)(?:/([0-9,]*))?")


@dataclass(frozen=True)
class BranchSpec:
    """A part of the observation, and the layers that read it."""

    rows: int  # 0: the part is a vector
    width: int  # numbers in a row, or in the vector
    by_row: tuple[int, ...]
    joined: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many numbers of the observation it reads."""
        return self.width * max(1, self.rows)


def parse_branch(text: str) -> BranchSpec:
    """Make a branch from its description."""
    found = _FORM.fullmatch(text.replace(" ", ""))
    if found is None:
        raise ConfigError(
            f"A branch is written like 14:128,64 or 6x13:64/64, and {describe_value(text)} is not."
        )
    first, second, before, after = found.groups()
    widths = [_parse_widths(part) for part in (before, after or "")]
    if second is None:
        if after is not None:
            raise ConfigError(f"The branch '{text}' has no rows to join: leave out the '/'.")
        spec = BranchSpec(0, int(first), (), widths[0])
    else:
        spec = BranchSpec(int(first), int(second), *widths)
    if 0 in (int(first), spec.width, *spec.by_row, *spec.joined):
        raise ConfigError(
            f"The branch '{text}' has a shape or a layer of width 0: every number must be above 0."
        )
    return spec


def _parse_widths(text: str) -> tuple[int, ...]:
    words = [word for word in text.split(",") if word]
    if (
        any(len(word) > 7 or not WIDTHS.holds(max(1, int(word))) for word in words)
        or len(words) > WIDTHS.items
    ):
        raise ConfigError(
            f"A branch has at most {WIDTHS.items} layers, each at most {format_bound(WIDTHS.most)} wide: "
            f"{describe_value(text)} is too much."
        )
    return tuple(map(int, words))


class Branch(nn.Module):
    """One part: layers for each row, then layers for all rows together."""

    def __init__(self, spec: BranchSpec, layer_norm: bool, linear: MakeLinear) -> None:
        super().__init__()
        self.spec = spec
        self.by_row, width = hidden_layers(spec.width, spec.by_row, layer_norm, linear)
        self.joined, self.features = hidden_layers(width * max(1, spec.rows), spec.joined, layer_norm, linear)

    def forward(self, numbers: Tensor) -> Tensor:
        """[B, size] → [B, features]."""
        if self.spec.rows:
            numbers = self.by_row(numbers.view(-1, self.spec.rows, self.spec.width)).flatten(1)
        return self.joined(numbers)  # type: ignore[no-any-return]


class BranchAttention(nn.Module):
    """How much each branch counts: α = softmax_i(vᵀ tanh(W_i x_i + b_i)), and x_i becomes n α_i x_i.

    Additive attention (Bahdanau et al. 2015) over n branches; the factor n keeps the scale if all weigh the same.
    """

    def __init__(self, widths: list[int], units: int, linear: MakeLinear) -> None:
        super().__init__()
        self.keys = nn.ModuleList(linear(width, units) for width in widths)
        self.score = nn.Linear(units, 1, bias=False)

    def forward(self, parts: list[Tensor]) -> list[Tensor]:
        """[B, width_i] each → the same, weighted."""
        scores = [self.score(torch.tanh(key(part))) for key, part in zip(self.keys, parts, strict=True)]
        weights = len(parts) * torch.softmax(torch.cat(scores, 1), 1)  # [B, n]
        return [part * weights[:, k : k + 1] for k, part in enumerate(parts)]


class Branches(nn.Module):
    """Branches, attention over them (if configured), and an MLP."""

    def __init__(
        self,
        shape: tuple[int, ...],
        descriptions: tuple[str, ...],
        attention: int,
        hidden: tuple[int, ...],
        layer_norm: bool,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        specs = [parse_branch(text) for text in descriptions]
        require_matching_branches(shape, specs)
        self.sizes = [spec.size for spec in specs]
        self.branches = nn.ModuleList(Branch(spec, layer_norm, linear) for spec in specs)
        widths = [branch.features for branch in self.branches]
        self.attention = BranchAttention(widths, attention, linear) if attention else None  # type: ignore[arg-type]
        self.mlp = MLP((sum(widths),), hidden, layer_norm, linear)  # type: ignore[arg-type]
        self.features = self.mlp.features

    def forward(self, obs: Tensor) -> Tensor:
        """[B, *shape] → [B, features]."""
        parts = torch.split(obs.flatten(1), self.sizes, 1)
        read = [branch(part) for branch, part in zip(self.branches, parts, strict=True)]
        if self.attention is not None:
            read = self.attention(read)
        return self.mlp(torch.cat(read, 1))  # type: ignore[no-any-return]


def require_matching_branches(shape: tuple[int, ...], specs: list[BranchSpec]) -> None:
    """Refuse branches that do not cover the observation exactly."""
    size, taken = math.prod(shape), sum(spec.size for spec in specs)
    if not specs:
        raise ConfigError(
            "The torso 'branches' needs network.branches: a shape and widths for every part of the observation, "
            "as in --network.branches 14:128,64 6x13:64/64."
        )
    if taken != size:
        raise ConfigError(
            f"network.branches takes {' + '.join(str(spec.size) for spec in specs)} = {taken} numbers, and an "
            f"observation has {size}: describe all of it."
        )
