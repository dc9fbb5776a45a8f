# mypy: ignore-errors
"""ε-greedy actions in one kernel."""

from __future__ import annotations

import triton
import triton.language as tl

from flashdqn.training.backends.cuda.kernel_layers import action_values, load_obs
from flashdqn.training.backends.cuda.kernel_td import best_legal_action, legal_actions


@triton.jit
def policy_kernel(
    flat, obs, mask, eps, coin, luck, action, net: tl.constexpr, rules: tl.constexpr, tile: tl.constexpr
):
    """a = argmax Q(s, ·) over the legal actions or, where coin < ε, the ⌊luck · legal⌋-th legal one."""
    rows = tl.program_id(0) * tile.rows + tl.arange(0, tile.rows)
    inside = rows < rules.rows
    numbers = load_obs(obs, rows, net, rules)
    q = action_values(numbers, flat, net, rules, tile)
    legal = legal_actions(mask, rows, net.padded_actions, net, rules)
    best = best_legal_action(q, legal, net.padded_actions)
    order = tl.cumsum(legal.to(tl.int32), axis=1)
    count = tl.sum(legal.to(tl.int32), axis=1)
    chance = tl.load(luck + rows, mask=inside, other=0.0)
    k = tl.minimum((chance * count.to(tl.float32)).to(tl.int32), count - 1)
    column = tl.arange(0, net.padded_actions)[None, :]
    random = tl.sum(tl.where(legal & (order == k[:, None] + 1), column, 0), axis=1)
    explore = tl.load(coin + rows, mask=inside, other=1.0) < tl.load(eps + rows, mask=inside, other=0.0)
    tl.store(action + rows, tl.where(explore, random, best).to(tl.int64), mask=inside)
