"""The few records that the parts hand to one another."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Step(NamedTuple):
    """What a vectorised environment answers to a batch of actions; row `i` speaks of environment `i`.

    After an end, `obs` is the true last observation of the episode. The next step ignores its action
    and answers with the first observation of a new episode: that row is no transition.
    The tensors belong to the environment, which may overwrite them in the next step: copy what you keep.
    """

    obs: Tensor  # [N, *obs]
    reward: Tensor  # [N] float32
    terminated: Tensor  # [N] bool: the episode ended by its own rules; nothing comes after
    truncated: Tensor  # [N] bool: it was cut off; there would have been more
    mask: Tensor | None = None  # [N, A] bool: the legal actions in `obs`; None where all are


class Transition(NamedTuple):
    """One learning sample per row. `discount` is γ^k · (1 − terminated), with k the steps really taken.

    Nothing after the replay knows γ, n, done or truncation.
    """

    obs: Tensor  # [B, *obs]
    action: Tensor  # [B] int64
    reward: Tensor  # [B] float32: the discounted sum over the k steps
    discount: Tensor  # [B] float32
    next_obs: Tensor  # [B, *obs]
    next_mask: Tensor | None = None  # [B, A] bool: the legal actions in `next_obs`
    mask: Tensor | None = None  # [B, A] bool: those in `obs`


class Batch(NamedTuple):
    """What a sampler returns: transitions, their weights in the loss, and where they lie in the ring.

    Where the first K rows are demonstrations, `index` tells of the others alone.
    """

    transition: Transition
    weight: Tensor  # [B] float32
    index: Tensor  # type: ignore[assignment]  # [B] int64: row · num_envs + environment
    expert: Tensor | None = (
        None  # [K] int64: what an expert would do in the first K, which are demonstrations
    )
