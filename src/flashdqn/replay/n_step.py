"""n-step transitions, gathered on reading.

For a start (t, e) let k ≤ n be the number of steps until the episode ends or n are taken. Then
reward = Σ_{j<k} γ^j r_{t+j}, discount = γ^k · (1 − terminated), next_obs = s_{t+k}. Nothing is read past an end.

Where steps tell how much time they took (`Ring.elapsed`), γ counts time instead of steps: the power of r_{t+j}
is the time of the j steps before it, and that of the discount the time of all k.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.core.types import Transition
from flashdqn.replay.ring import Kind, Ring


def gather_transitions(ring: Ring, index: Tensor, n: int, gamma: float) -> Transition:
    """The transitions that start at `index` ([B], row · num_envs + environment).

    The caller ensures that rows t … t+n−1 are complete and that row t is a transition.
    """
    slots = ring.rows * ring.num_envs
    kinds, rewards = ring.kind.view(-1), ring.reward.view(-1)
    if n == 1:
        kind = kinds[index]
        reward = rewards[index]
        factor = gamma if ring.elapsed is None else gamma ** ring.elapsed.view(-1)[index].to(torch.float32)
        discount = (kind != int(Kind.TERMINATED)).to(torch.float32) * factor
        following = (index + ring.num_envs) % slots
    else:
        offset = torch.arange(n, device=index.device) * ring.num_envs
        window = (index[:, None] + offset) % slots  # [B, n]
        kind = kinds[window]
        ended = (kind == int(Kind.TERMINATED)) | (kind == int(Kind.TRUNCATED))
        # alive[:, j]: no end before step j, so reward j belongs to this episode
        alive = torch.ones_like(ended)
        alive[:, 1:] = ~ended[:, :-1].cummax(1).values
        taken = alive.sum(1)  # k
        terminated = ((kind == int(Kind.TERMINATED)) & alive).any(1)
        if ring.elapsed is None:
            powers = gamma ** torch.arange(n + 1, dtype=torch.float32, device=index.device)
            before, whole = powers[:-1], powers[taken]
        else:
            elapsed = ring.elapsed.view(-1)[window].to(torch.float32) * alive
            passed = elapsed.cumsum(1)  # [B, n]: when step j is over
            before, whole = gamma ** (passed - elapsed), gamma ** passed[:, -1]
        reward = (rewards[window] * alive * before).sum(1)
        discount = whole * ~terminated
        following = (index + taken * ring.num_envs) % slots
    action = ring.action.view(-1)[index].to(torch.int64)
    obs, next_obs = ring.observations(index), ring.observations(following)
    next_mask, mask = gather_masks(ring, index, following, obs, next_obs)
    return Transition(obs, action, reward, discount, next_obs, next_mask, mask)


def gather_masks(
    ring: Ring, index: Tensor, following: Tensor, obs: Tensor, next_obs: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """The legal actions in `next_obs` and in `obs`: computed from these, or as the ring stored them, or None."""
    if ring.legal is not None:
        return ring.legal(next_obs), ring.legal(obs)
    if ring.mask is None:
        return None, None
    mask = ring.mask.flatten(0, 1)
    return mask[following], mask[index]
