"""What a network's output means: the head turns it into action values, and compares it with a target.

A head's *value* is what it learns about a state and an action: a number for the scalar head, a distribution for
those in `distributional.py`. `td_loss` never looks inside.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from flashdqn.config.axes import ScalarHeadConfig
from flashdqn.networks.implicit import Fractions


class Head(Protocol):
    """The meaning of a network's output. A head whose value is a single number has `single_number = True`."""

    @property
    def size(self) -> int:
        """Numbers per action that the network must give."""

    @property
    def fractions(self) -> Fractions | None:
        """Not None: the network must give implicit quantiles, at these numbers of fractions."""

    def q(self, output: Tensor) -> Tensor:
        """Expected values, [B, A]."""

    def select(self, output: Tensor, action: Tensor) -> Tensor:
        """The value of one action per row, [B, …]."""

    def expect(self, output: Tensor, policy: Tensor) -> Tensor:
        """The value of an action drawn from `policy` [B, A], in the form of `select`, [B, …]."""

    def mean(self, value: Tensor) -> Tensor:
        """The expectation of a value, [B]."""

    def target(self, value: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """The value of reward + discount · value, in the form that `compare` needs."""

    def compare(self, value: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and priority of each sample, [B] and [B]."""


class ScalarHead:
    """One number per action: the expected return (Mnih et al. 2015). Huber loss; δ = 0 means the square."""

    size = 1
    fractions = None
    single_number = ScalarHeadConfig.single_number

    def __init__(self, huber: float) -> None:
        self.huber = huber

    def q(self, output: Tensor) -> Tensor:
        """The output itself."""
        return output

    def select(self, output: Tensor, action: Tensor) -> Tensor:
        """Q(s, a), [B]."""
        return output.gather(1, action[:, None]).squeeze(1)

    def expect(self, output: Tensor, policy: Tensor) -> Tensor:
        """Σ_a π(a) Q(s, a), [B]."""
        return (policy * output).sum(1)

    def mean(self, value: Tensor) -> Tensor:
        """The value itself."""
        return value

    def target(self, value: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """r + γ^k (1 − terminated) Q', [B]."""
        return torch.addcmul(reward, discount, value)

    def compare(self, value: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Huber's loss and the absolute error."""
        if self.huber > 0:
            loss = F.huber_loss(value, target, reduction="none", delta=self.huber)
        else:
            loss = 0.5 * (value - target) ** 2
        return loss, (value.detach() - target).abs()
