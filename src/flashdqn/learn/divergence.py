"""Notice a loss that is NaN or infinite, without asking the device at every update.

On the CPU a look costs nothing, so every update is looked at. On CUDA the first bad update leaves its mark on
the device, and the report that follows finds it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from flashdqn.errors import DivergedError
from flashdqn.types import Batch


class DivergenceWatch:
    """Remembers the first update with a bad loss, and what its batch looked like."""

    def __init__(self, device: torch.device) -> None:
        self.on_host = device.type == "cpu"
        self.first_bad = torch.full((), -1, dtype=torch.int64, device=device)
        self.statistics = torch.zeros(len(STATISTICS), device=device)

    def observe(self, loss: Tensor, batch: Batch, update: int) -> None:
        """Called once per update."""
        if self.on_host:
            if not math.isfinite(loss.item()):
                raise DivergedError(describe(update, batch_statistics(loss, batch).tolist()))
            return
        first = (self.first_bad < 0) & ~torch.isfinite(loss.detach())
        self.first_bad.masked_fill_(first, update)
        torch.where(first, batch_statistics(loss, batch), self.statistics, out=self.statistics)

    def check(self) -> None:
        """Called once per report: raise if an update since the last one was bad."""
        if not self.on_host and int(self.first_bad) >= 0:
            raise DivergedError(describe(int(self.first_bad), self.statistics.tolist()))


STATISTICS = ("loss", "largest |obs|", "least reward", "largest reward", "mean discount")


def batch_statistics(loss: Tensor, batch: Batch) -> Tensor:
    """The five numbers that tell a bad batch from bad weights."""
    obs, _, reward, discount, next_obs, *_ = batch.transition
    largest = torch.maximum(obs.abs().max(), next_obs.abs().max()).to(torch.float32)
    return torch.stack((loss.detach(), largest, reward.min(), reward.max(), discount.mean()))


def describe(update: int, statistics: list[float]) -> str:
    """One sentence with the update and its batch."""
    numbers = ", ".join(f"{name} {value:g}" for name, value in zip(STATISTICS, statistics, strict=True))
    return f"The loss of gradient step {update} is not finite ({numbers})"
