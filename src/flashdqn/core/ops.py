"""Small tensor functions that environments, learner and agents share: best legal action, exploration."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.core.branching import ActionBranches


def masked_argmax(q: Tensor, mask: Tensor | None, branches: ActionBranches | None = None) -> Tensor:
    """The best legal action, [B]; with branches, the best choice in each."""
    if branches is not None:
        return branches.to_action(branches.choose_best(q, mask))
    return q.argmax(1) if mask is None else q.masked_fill(~mask, -float("inf")).argmax(1)


def has_legal_action(mask: Tensor, branches: ActionBranches | None = None) -> Tensor:
    """Whether there is a legal action, [B]; with branches, a legal choice in each."""
    if branches is None:
        return mask.any(1)
    rows = branches.mask_rows(mask, mask.shape[0])
    assert rows is not None
    return rows.any(2).all(1)


def choose_epsilon_greedy(
    q: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor, branches: ActionBranches | None = None
) -> Tensor:
    """The best legal action, or with probability ε_i a random legal one. `luck`, [2, N] in [0, 1): one number per
    environment decides whether to explore, the other one which legal action to take. With D branches it is
    [1 + D, N], and a random action has a random legal choice in every branch."""
    if branches is not None:
        chance = branches.to_action(branches.choose_random(mask, luck[1:]))
    elif mask is None:
        actions = q.shape[1]
        chance = (luck[1] * actions).to(torch.int64).clamp(max=actions - 1)
    else:
        legal = mask.sum(1)
        nth = torch.minimum((luck[1] * legal).to(torch.int64), legal - 1)
        # the first action at which the count of legal ones exceeds `nth`
        chance = (mask.cumsum(1) > nth[:, None]).to(torch.uint8).argmax(1)
    return torch.where(luck[0] < eps, chance, masked_argmax(q, mask, branches))
