"""The one temporal-difference loss of the whole family. It has no state: the caller passes the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.core.types import Batch
from flashdqn.learn.bootstraps import Bootstrap, Net
from flashdqn.learn.heads import Head


class TDLoss(NamedTuple):
    """The loss to minimize, and useful numbers about the batch."""

    loss: Tensor  # []
    priority: Tensor  # [B]
    q: Tensor  # []: mean value of the actions taken


@dataclass(frozen=True)
class Margin:
    """λ (max_a [Q(s, a) + m · 1(a ≠ e)] − Q(s, e)), over the legal actions: 0 where the expert's action e is worth
    at least m more than any other.

    J_E of Hester et al. 2018, arXiv:1704.03732, eq. 5.
    """

    gap: float  # m
    weight: float  # λ

    def __call__(self, q: Tensor, expert: Tensor, mask: Tensor | None) -> Tensor:
        """The loss of each row, [K]."""
        rivals = q + self.gap
        if mask is not None:
            rivals = rivals.masked_fill(~mask, -float("inf"))
        own = q.gather(1, expert[:, None])
        best = rivals.scatter(1, expert[:, None], own).amax(1)
        return self.weight * (best - own.squeeze(1))


def td_loss(
    online: Net, target: Net, batch: Batch, head: Head, bootstrap: Bootstrap, margin: Margin | None = None
) -> TDLoss:
    """Weighted mean over the batch of the head's distance between Q(s, a) and the bootstrap's target; plus the
    margin loss, if there are demonstrations."""
    transition, weight, _, expert = batch
    with torch.no_grad():
        goal = bootstrap(online, target, transition, head)
    output = online(transition.obs)
    value = head.select(output, transition.action)
    loss, priority = head.compare(value, goal)
    total = (weight * loss).mean()
    if margin is not None and expert is not None:
        shown = len(expert)
        mask = None if transition.mask is None else transition.mask[:shown]
        total = total + margin(head.q(output[:shown]), expert, mask).sum() / len(weight)
    return TDLoss(total, priority, head.mean(value.detach()).mean())
