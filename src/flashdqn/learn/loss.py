"""The one temporal-difference loss of the whole family. It holds no state: parameters come from outside."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.learn.bootstraps import Bootstrap, Net
from flashdqn.learn.heads import Head
from flashdqn.types import Batch


class TDLoss(NamedTuple):
    """The loss to minimise, and what is worth knowing about the batch."""

    loss: Tensor  # []
    priority: Tensor  # [B]
    q: Tensor  # []: mean value of the actions taken


def td_loss(online: Net, target: Net, batch: Batch, head: Head, bootstrap: Bootstrap) -> TDLoss:
    """Weighted mean over the batch of the head's distance between Q(s, a) and the bootstrap's target."""
    transition, weight, _ = batch
    with torch.no_grad():
        goal = bootstrap(online, target, transition, head)
    value = head.select(online(transition.obs), transition.action)
    loss, priority = head.compare(value, goal)
    return TDLoss((weight * loss).mean(), priority, head.mean(value.detach()).mean())
