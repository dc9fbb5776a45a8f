"""The few records that the parts pass to each other."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Step(NamedTuple):
    """What a vectorized environment returns for a batch of actions; row `i` belongs to environment `i`.

    After an end, `obs` is the true last observation of the episode. The next step ignores its action
    and returns the first observation of a new episode: that row is not a transition.
    The tensors belong to the environment, which may overwrite them in the next step: copy what you keep.
    """

    obs: Tensor  # [N, *obs]
    reward: Tensor  # [N] float32
    terminated: Tensor  # [N] bool: the episode ended by its own rules; nothing follows
    truncated: Tensor  # [N] bool: it was cut off and would have continued
    mask: Tensor | None = None  # [N, A] bool: the legal actions in `obs`; None if all are
    # [N] uint8: how much time passed, by which what follows is discounted; None: 1 in every step
    elapsed: Tensor | None = None


class Transition(NamedTuple):
    """One learning sample per row. `discount` is γ^k · (1 − terminated), with k the number of steps taken, or the
    time that they took where the environment tells it.

    No code after the replay knows γ, n, done or truncation.
    """

    obs: Tensor  # [B, *obs]
    action: Tensor  # [B] int64
    reward: Tensor  # [B] float32: the discounted sum over the k steps
    discount: Tensor  # [B] float32
    next_obs: Tensor  # [B, *obs]
    next_mask: Tensor | None = None  # [B, A] bool: the legal actions in `next_obs`
    mask: Tensor | None = None  # [B, A] bool: the legal actions in `obs`


class Batch(NamedTuple):
    """What a sampler returns: transitions, their weights in the loss, and their places in the ring.

    Where the first K rows are demonstrations, `index` covers only the others.
    """

    transition: Transition
    weight: Tensor  # [B] float32
    index: Tensor  # type: ignore[assignment]  # [B] int64: row · num_envs + environment
    # [K] int64: the expert's actions in the first K rows, which are demonstrations
    expert: Tensor | None = None
