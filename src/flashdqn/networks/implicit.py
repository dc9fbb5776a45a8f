"""Implicit quantiles: the network takes a fraction τ and returns that quantile of the return.

Dabney et al. 2018b, *Implicit Quantile Networks*, arXiv:1806.06923.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flashdqn.networks.outputs import apply_output_layer


@dataclass(frozen=True)
class Fractions:
    """How many fractions τ are drawn, in the paper's symbols."""

    learn: int  # N: quantiles of Q(s, a) that the loss compares
    target: int  # N': quantiles of the target
    choose: int  # K: their mean chooses an action


class ImplicitQuantiles(nn.Module):
    """Z_τ(s, ·) = f(ψ(s) ⊙ φ(τ)) with φ_j(τ) = ReLU(Σ_{i<n} cos(π i τ) w_ij + b_j) (eq. 4).

    The output, [B, 1 + n, A + 1], has all that the head needs. Row 0 holds the mean over the fractions that
    choose an action. Each other row holds the quantiles of one fraction, with τ itself in the last column. Every
    call in training mode draws its own fractions, unless they are given; in evaluation mode they are the K
    midpoints, not random.
    """

    frequencies: Tensor  # [cosines]: π i
    midpoints: Tensor  # [K]

    def __init__(self, features: int, f: nn.Module, cosines: int, fractions: Fractions) -> None:
        super().__init__()
        self.f, self.fractions = f, fractions
        self.embedding = nn.Linear(cosines, features)
        self.learn, self.choose = fractions.learn, 0  # the online network; see `become_target`
        self.generator: torch.Generator | None = None
        self.register_buffer("frequencies", math.pi * torch.arange(cosines), persistent=False)
        middle = (torch.arange(fractions.choose) + 0.5) / fractions.choose
        self.register_buffer("midpoints", middle, persistent=False)

    def become_target(self, chooses: bool) -> None:
        """Draw N' fractions to learn from, and K more if the target chooses the action. The online network draws
        only N to learn from: if it has to choose (double), their mean does."""
        self.learn, self.choose = self.fractions.target, self.fractions.choose if chooses else 0

    def forward(self, features: Tensor, tau: Tensor | None = None) -> Tensor:
        """ψ [B, F] → [B, 1 + n, A + 1]; τ, [B, `count`], if the fractions were drawn before."""
        if not self.training:
            return self.policy(features)
        if tau is None:
            tau = self.draw(len(features), self.count)
        quantiles = self.quantiles(features, tau)
        mean = quantiles.detach()[:, : self.choose or self.learn].mean(1, keepdim=True)
        chosen, tau = quantiles[:, self.choose :], tau[:, self.choose :]
        return pack_quantiles(mean, chosen, tau)

    @property
    def count(self) -> int:
        """How many fractions a call needs."""
        return self.choose + self.learn

    def policy(self, features: Tensor, tau: Tensor | None = None) -> Tensor:
        """Only what chooses an action, from K fractions, [B, K] if they were drawn before: [B, 1, A + 1]."""
        # The midpoints are one row for all samples: in an exported graph their embedding is a constant.
        if tau is None:
            draw = self.training
            tau = self.draw(len(features), self.fractions.choose) if draw else self.midpoints[None]
        quantiles = self.quantiles(features, tau)
        return pack_quantiles(quantiles.mean(1, keepdim=True), quantiles[:, :0], quantiles[:, :0, 0])

    def quantiles(self, features: Tensor, tau: Tensor) -> Tensor:
        """The quantiles at fractions τ, [B, n] or [1, n] for all, as [B, n, A]."""
        cosine = torch.cos(tau[..., None] * self.frequencies)  # [B, n, cosines]
        joint = features[:, None] * torch.relu(self.embedding(cosine))  # [B, n, F]
        return apply_output_layer(self.f, joint)

    def draw(self, size: int, count: int) -> Tensor:
        """`count` fractions for each of `size` samples."""
        return torch.rand((size, count), generator=self.generator, device=self.midpoints.device)


def pack_quantiles(mean: Tensor, quantiles: Tensor, tau: Tensor) -> Tensor:
    """Means [B, 1, A], quantiles [B, n, A] and their fractions [B, n] in one tensor, [B, 1 + n, A + 1]."""
    values = torch.cat((mean, quantiles), 1)
    column = torch.cat((torch.zeros_like(mean[..., 0]), tau), 1)
    return torch.cat((values, column[..., None]), 2)
