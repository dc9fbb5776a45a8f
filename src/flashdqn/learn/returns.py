"""λ-returns: what the actions of a rollout were worth."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.core.ops import masked_argmax


def lambda_returns(
    reward: Tensor, terminated: Tensor, truncated: Tensor, next_value: Tensor, gamma: float, trace: float
) -> Tensor:
    """G_t = r_t + γ (1 − terminated_t) [λ G_{t+1} + (1 − λ) V_{t+1}], backwards over the first axis.

    All are [T, N]; `next_value[t]` is V = max_a Q of the observation that step t led to. This is Peng's Q(λ) (Peng
    and Williams 1994), as in PQN (Gallici et al. 2024, arXiv:2407.04811). At a termination nothing follows; at a
    truncation, and at the end of the rollout, only V follows. So nothing is ever read from the row after an end,
    which is not a transition: the result in that row means nothing, and must get weight 0.
    """
    discount = gamma * (~terminated).to(reward.dtype)
    kept = trace * (~truncated).to(reward.dtype)  # λ_t
    result = torch.empty_like(reward)
    following = next_value[-1]
    for t in reversed(range(len(reward))):
        ahead = torch.lerp(next_value[t], following, kept[t])
        following = torch.addcmul(reward[t], discount[t], ahead, out=result[t])
    return result


def best_value(q: Tensor, mask: Tensor | None) -> Tensor:
    """max_a Q over the legal actions, [B]; if there are none the episode is over, and any value will do."""
    return q.gather(1, masked_argmax(q, mask)[:, None]).squeeze(1)
