"""Notice a loss that is NaN or infinite, without reading from the device at every update.

On the CPU a check costs nothing, so every update is checked. On CUDA the first bad update leaves a mark on
the device, and the next report finds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from flashdqn.core.errors import DivergedError, EnvFailureError
from flashdqn.core.types import Batch


class DivergenceWatch:
    """Remembers the first update with a bad loss."""

    def __init__(self, device: torch.device) -> None:
        self.on_host = device.type == "cpu"
        self.first_bad = torch.full((), -1, dtype=torch.int64, device=device)
        self._describe_replay: Callable[[], str] = str
        self._env_name = "The environment"

    def explain_by(self, describe_replay: Callable[[], str], env_name: str = "The environment") -> None:
        """Say what learning draws from, because the batch itself is gone when the mark is found."""
        self._describe_replay, self._env_name = describe_replay, env_name

    def look(self, loss: Tensor, batch: Batch, update: Tensor) -> None:
        """On the CPU, once per update: raise at once if the loss is bad."""
        if not math.isfinite(loss.item()):
            obs, _, reward, _, next_obs, *_ = batch.transition
            if not all(bool(x.isfinite().all()) for x in (obs, reward, next_obs)):
                raise EnvFailureError(
                    f"{self._env_name} gave an observation or a reward that is NaN or infinite: every number must "
                    "be finite. flashdqn.envs.check_env says which."
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
            raise DivergedError(f"{where} (in the replay: {self._describe_replay()})")


def describe_loss(loss: Tensor, batch: Batch) -> str:
    """The numbers that tell a bad batch from bad weights."""
    obs, _, reward, discount, next_obs, *_ = batch.transition
    data = describe_data(torch.stack((obs, next_obs)), reward)
    return f"loss {loss.item():g}, {data}, mean discount {discount.mean():g}"


def describe_data(obs: Tensor, reward: Tensor) -> str:
    """The extremes of observations and rewards."""
    least, most = reward.min(), reward.max()
    return f"largest |obs| {obs.abs().max():g}, least reward {least:g}, largest reward {most:g}"
