"""Notice a loss that is NaN or infinite, without reading from the device at every update.

On the CPU a check costs nothing, so every update is checked. On CUDA the first bad update leaves a mark on
the device, and the next report finds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.core.errors import BadNumbersError, DivergedError
from flashdqn.core.types import Batch
from flashdqn.replay.bad_numbers import find_bad_number
from flashdqn.replay.ring import Ring

#: Networks expect numbers of about 1. Sums over numbers above this one overflow soon.
LARGE = 1e6


class DataOrigin(NamedTuple):
    """Where the numbers come from that learning draws."""

    env_name: str
    ring: Ring
    count_transitions: Callable[[], int]
    given_rewards: bool = True
    """Whether a batch holds the environment's rewards, and not returns that the network has helped to compute."""


class DivergenceWatch:
    """Remembers the first update with a bad loss."""

    def __init__(self, device: torch.device) -> None:
        self.on_host = device.type == "cpu"
        self.first_bad = torch.full((), -1, dtype=torch.int64, device=device)
        self._origin: DataOrigin | None = None

    def explain_by(self, origin: DataOrigin) -> None:
        """Say where observations and rewards come from: the batch is gone when the mark is found."""
        self._origin = origin

    def look(self, loss: Tensor, batch: Batch, update: Tensor) -> None:
        """On the CPU, once per update: raise at once if the loss is bad."""
        if not math.isfinite(loss.item()):
            obs, _, reward, discount, next_obs, *_ = batch.transition
            given = {"obs": obs, "reward": reward, "next_obs": next_obs}
            if self._origin is not None and not self._origin.given_rewards:
                del given["reward"]
            self._refuse_bad_numbers(f"the batch of gradient step {int(update)}", given)
            if self._origin is not None:
                self.check_replay()
            what = f"loss {loss.item():g}, {describe_data(torch.stack((obs, next_obs)), reward)}"
            where = f"The loss of gradient step {int(update)} is not finite"
            raise blame_divergence(f"{where} ({what}, mean discount {discount.mean():g})", obs, reward)

    def mark(self, loss: Tensor, update: Tensor) -> None:
        """On CUDA, once per update: mark the first bad one; updates are counted on the device too."""
        first = (self.first_bad < 0) & ~torch.isfinite(loss.detach())
        self.first_bad.copy_(torch.where(first, update.to(torch.int64), self.first_bad))

    def check(self) -> None:
        """Once per report: raise if an update since the last report was bad."""
        if not self.on_host and int(self.first_bad) >= 0:
            where = f"The loss of gradient step {int(self.first_bad)} is not finite"
            if self._origin is None:
                raise DivergedError(where)
            self.check_replay(f"at gradient step {int(self.first_bad)} the replay")
            obs, reward = self._origin.ring.learned_from()
            raise blame_divergence(f"{where} (in the replay: {describe_data(obs, reward)})", obs, reward)

    def check_replay(self, place: str = "the replay") -> None:
        """Raise if learning could draw numbers that are not finite: a run resumed with them would fail again."""
        if self._origin is not None:
            obs, reward = self._origin.ring.learned_from()
            self._refuse_bad_numbers(place, {"obs": obs, "reward": reward})

    def _refuse_bad_numbers(self, place: str, given: Mapping[str, Tensor]) -> None:
        if bad := describe_bad_numbers(given):
            name = "The environment" if self._origin is None else self._origin.env_name
            told = f"{self._locate_bad_number()}{place} holds {bad}"
            raise BadNumbersError(f"{name} gave numbers that are NaN or infinite: {told}")

    def _locate_bad_number(self) -> str:
        """The first such number in the replay, in words that go before others."""
        bad = find_bad_number(self._origin.ring) if self._origin is not None else None
        if self._origin is None or bad is None:
            return ""
        step = self._origin.count_transitions() - bad.later
        which = f"environment {bad.env} of {self._origin.ring.num_envs}"
        return f"{bad.what} of {which} was {bad.value:g} at step {step:,}, and "


def blame_divergence(text: str, obs: Tensor, reward: Tensor) -> DivergedError:
    """The error for a bad loss from finite numbers; very large ones need another advice than usual."""
    error = DivergedError(text)
    for what, numbers in (("observations", obs), ("rewards", reward)):
        if numbers.numel() and not float(numbers.abs().max()) <= LARGE:
            error.advice = f"The {what} are very large: divide them, so that most lie between −1 and 1."
    return error


def describe_bad_numbers(given: Mapping[str, Tensor]) -> str:
    """Where numbers are not finite, and how many: "2 of 128 in obs"; empty if all are finite."""
    found = []
    for name, tensor in given.items():
        if tensor.is_floating_point() and not all(math.isfinite(x) for x in tensor.aminmax()):
            parts = torch.split(tensor, 1024)  # a replay may be large
            count = sum(int((~part.isfinite()).sum()) for part in parts)
            found.append(f"{count:,} of {tensor.numel():,} in {name}")
    return ", ".join(found)


def describe_data(obs: Tensor, reward: Tensor) -> str:
    """The extremes of observations and rewards."""
    least, most = reward.min(), reward.max()
    return f"largest |obs| {obs.abs().max():g}, least reward {least:g}, largest reward {most:g}"
