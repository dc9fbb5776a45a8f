"""Variants of a user's, one on each axis, good and bad."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flashdqn.core.types import Batch, Transition
from flashdqn.learn.bootstraps import Net, greedy_target
from flashdqn.learn.heads import Head
from flashdqn.replay.n_step import gather_transitions
from flashdqn.replay.ring import Kind, Ring
from flashdqn.replay.samplers import split_batch, window_slots


class Squashed:
    """A head: the network predicts sign(Q) (√(|Q| + 1) − 1), so that large returns do not make large gradients."""

    size = 1
    fractions = None
    single_number = True

    def __init__(self, power: float = 0.5) -> None:
        self.power = power

    def _grow(self, x: Tensor) -> Tensor:
        return x.sign() * ((x.abs() + 1) ** (1 / self.power) - 1)

    def _shrink(self, x: Tensor) -> Tensor:
        return x.sign() * ((x.abs() + 1) ** self.power - 1)

    def q(self, output: Tensor) -> Tensor:
        return self._grow(output)

    def select(self, output: Tensor, action: Tensor) -> Tensor:
        return output.gather(1, action[:, None]).squeeze(1)

    def expect(self, output: Tensor, policy: Tensor) -> Tensor:
        return self._shrink((policy * self.q(output)).sum(1))

    def mean(self, value: Tensor) -> Tensor:
        return self._grow(value)

    def target(self, value: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        return self._shrink(reward + discount * self._grow(value))

    def compare(self, value: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        return F.huber_loss(value, target, reduction="none"), (value.detach() - target).abs()


class Recent:
    """A sampler: the newest rows alone, each with the same chance. It counts its batches, to be resumed."""

    def __init__(
        self, ring: Ring, n_step: int, gamma: float, generator: torch.Generator, rows: int = 20
    ) -> None:
        self.ring, self.n_step, self.gamma, self.generator, self.rows = ring, n_step, gamma, generator, rows
        self.drawn = torch.zeros((), dtype=torch.int64)

    def batches(self, count: int, size: int) -> list[Batch]:
        ring = self.ring
        windows = (ring.readable - (self.n_step - 1)).clamp(max=self.rows) * ring.num_envs
        bits = torch.empty(count * size, dtype=torch.int64, device=ring.device).random_(
            generator=self.generator
        )
        index = window_slots(ring, self.n_step, bits % windows)
        weight = (ring.kind.view(-1)[index] != int(Kind.RESET)).float()
        self.drawn += count
        batch = Batch(gather_transitions(ring, index, self.n_step, self.gamma), weight, index)
        return split_batch(batch, count, size)

    def state_dict(self) -> dict[str, Tensor]:
        return {"drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.drawn.copy_(state["drawn"])


class Lion:
    """An optimizer: the sign of a mean of gradients (Chen et al. 2023, arXiv:2302.06675)."""

    def __init__(self, values: Tensor, lr: Tensor, beta1: float = 0.9, beta2: float = 0.99) -> None:
        self.values, self.lr, self.beta1, self.beta2 = values, lr, beta1, beta2
        self.mean = torch.zeros_like(values)

    def step(self, gradient: Tensor) -> None:
        self.values.sub_(self.lr * torch.lerp(gradient, self.mean, self.beta1).sign())
        self.mean.lerp_(gradient, 1 - self.beta2)

    def state_dict(self) -> dict[str, Tensor]:
        return {"mean": self.mean}


class OneStep:
    """A bootstrap that says of itself that it needs single steps."""

    single_step_only = True

    def __call__(self, online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
        return greedy_target(online, target, transition, head)


class ByOnline:
    """A bootstrap that says of itself that the online network chooses."""

    online_chooses = True

    def __call__(self, online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
        return greedy_target(online, target, transition, head)


class Wide(Squashed):
    """Wrong in the way that is asked for."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        sizes: dict[str, Any] = {"a text": "1", "none": 0}
        self.size = sizes.get(how, 1)
        if how == "raises":
            raise ValueError("no luck")
        if how == "fractions":
            self.fractions = 3  # type: ignore[assignment]

    def q(self, output: Tensor) -> Tensor:
        return output[:, :1] if self.how == "one q" else super().q(output)

    def compare(self, value: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        if self.how == "compare raises":
            raise ValueError("no luck")
        loss, priority = super().compare(value, target)
        return loss, priority.mean() if self.how == "one priority" else priority


def not_callable() -> int:
    return 3


def wrong_shape() -> Any:
    return lambda online, target, transition, head: torch.zeros(5)


class Lazy:
    """Without the methods that anything needs."""

    def __init__(self, *parts: Any) -> None:
        pass
