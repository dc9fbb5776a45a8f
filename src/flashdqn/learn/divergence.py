"""Notice a loss that is NaN or infinite, without reading from the device at every update.

On the CPU a check costs nothing, so every update is checked. On CUDA the first bad update leaves a mark on
the device, and the next report finds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from flashdqn.core.errors import BadNumbersError, DivergedError
from flashdqn.core.types import Batch


class DivergenceWatch:
    """Remembers the first update with a bad loss."""

    def __init__(self, device: torch.device) -> None:
        self.on_host = device.type == "cpu"
        self.first_bad = torch.full((), -1, dtype=torch.int64, device=device)
        self._read_replay: Callable[[], tuple[Tensor, Tensor]] | None = None
        self._env_name = "The environment"

    def explain_by(self, read_replay: Callable[[], tuple[Tensor, Tensor]], env_name: str) -> None:
        """Say whose observations and rewards learning draws from: the batch is gone when the mark is found."""
        self._read_replay, self._env_name = read_replay, env_name

    def look(self, loss: Tensor, batch: Batch, update: Tensor) -> None:
        """On the CPU, once per update: raise at once if the loss is bad."""
        if not math.isfinite(loss.item()):
            obs, _, reward, _, next_obs, *_ = batch.transition
            self._refuse_bad_numbers(
                f"the batch of gradient step {int(update)}", obs=obs, reward=reward, next_obs=next_obs
            )
            what = describe_loss(loss, batch)
            raise DivergedError(f"The loss of gradient step {int(update)} is not finite ({what})")

    def mark(self, loss: Tensor, update: Tensor) -> None:
        """On CUDA, once per update: mark the first bad one; updates are counted on the device too."""
        first = (self.first_bad < 0) & ~torch.isfinite(loss.detach())
        self.first_bad.copy_(torch.where(first, update.to(torch.int64), self.first_bad))

    def check(self) -> None:
        """Once per report: raise if an update since the last report was bad."""
        if not self.on_host and int(self.first_bad) >= 0:
            where = f"The loss of gradient step {int(self.first_bad)} is not finite"
            if self._read_replay is None:
                raise DivergedError(where)
            self.check_replay(f"at gradient step {int(self.first_bad)} the replay")
            raise DivergedError(f"{where} (in the replay: {describe_data(*self._read_replay())})")

    def check_replay(self, place: str = "the replay") -> None:
        """Raise if learning could draw numbers that are not finite: a run resumed with them would fail again."""
        if self._read_replay is not None:
            obs, reward = self._read_replay()
            self._refuse_bad_numbers(place, obs=obs, reward=reward)

    def _refuse_bad_numbers(self, place: str, **given: Tensor) -> None:
        if bad := describe_bad_numbers(given):
            raise BadNumbersError(
                f"{self._env_name} gave numbers that are NaN or infinite: {place} holds {bad}"
            )


def describe_loss(loss: Tensor, batch: Batch) -> str:
    """The numbers that tell a bad batch from bad weights."""
    obs, _, reward, discount, next_obs, *_ = batch.transition
    data = describe_data(torch.stack((obs, next_obs)), reward)
    return f"loss {loss.item():g}, {data}, mean discount {discount.mean():g}"


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
