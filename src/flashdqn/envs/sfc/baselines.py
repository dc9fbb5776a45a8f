"""Policies to compare with: a rule-based heuristic, random actions, and choosing the data center by its value.

Each is called like a network, with observations [N, …], and returns action values [N, A]. So code that plays games
with a network can play with these: `evaluate(env, Heuristic(env), ScalarHead(0.0), seed)`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from flashdqn.compute.kernels import Array, Kernel, Scalar, inner
from flashdqn.envs.sfc.env import PARALLEL_FROM, ServiceChains
from flashdqn.envs.sfc.features import write_observation
from flashdqn.envs.sfc.layout import DC, DCS, NOBODY, OVER, Net
from flashdqn.envs.sfc.placement import NO_SCORE, find_next_request, is_needed, write_mask


@inner
def choose_by_rule(i: Scalar, chosen: Array, makes_room: Array, *arrays: Array) -> None:
    """The heuristic's action for the data center in turn."""
    net = Net(*arrays)
    d, count = net.state[i, DC], len(net.vnfs)
    served, first, points_served, points_first, r_served, r_first = 2 * count, -1, NO_SCORE, NO_SCORE, 0, 0
    spare, points_spare = 2 * count, -NO_SCORE
    for v in range(count):
        r, _, _, _, points = find_next_request(i, v, d, False, net)
        if r != NOBODY and (points > points_first or (points == points_first and r < r_first)):
            first, points_first, r_first = v, points, r
        if net.mask[i, v] and (points > points_served or (points == points_served and r < r_served)):
            served, points_served, r_served = v, points, r
        if net.mask[i, count + v] and points < points_spare:
            spare, points_spare = count + v, points
    idle = spare < 2 * count
    if makes_room[0] and first >= 0 and first != served and idle and points_spare < points_first:
        chosen[i] = spare
    elif served < 2 * count:
        chosen[i] = served
    else:
        chosen[i] = spare if idle and not is_needed(i, spare - count, net) else 2 * count


class Heuristic:
    """A rule without learning. Serve the most urgent request that can be served here, by P1 + P2 + P3, on an idle
    instance or a new one. If there is none, uninstall an idle instance that no request waits for; else wait.

    With `makes_room` it also uninstalls instances that are needed: if the most urgent request finds no room, it
    removes the idle instance whose next request is the least urgent.
    """

    def __init__(self, env: ServiceChains, makes_room: bool = False) -> None:
        self.chosen = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        self.num_actions = env.num_actions
        flag = torch.tensor([makes_room], device=env.device)
        self._launch = Kernel(choose_by_rule, PARALLEL_FROM).bind(env.num_envs, self.chosen, flag, *env.net)

    def __call__(self, obs: Tensor) -> Tensor:
        """1 for the rule's action, 0 for the others; this reads the networks themselves, not `obs`."""
        return F.one_hot(self.choose(), self.num_actions).to(torch.float32)

    def choose(self) -> Tensor:
        """The action of the rule in every network, [N]; the next call overwrites it."""
        self._launch()
        return self.chosen


class Chance:
    """Random actions with equal probability; with masks, random legal ones."""

    def __init__(self, env: ServiceChains, seed: int = 0) -> None:
        self.num_actions = env.num_actions
        self.generator = torch.Generator(env.device).manual_seed(seed)

    def __call__(self, obs: Tensor) -> Tensor:
        """Random action values."""
        size = (len(obs), self.num_actions)
        return torch.rand(size, generator=self.generator, device=obs.device)


@inner
def observe_all_centers(i: Scalar, views: Array, masks: Array, *arrays: Array) -> None:
    """What every data center would see and could do if it were its turn; empty for unused numbers."""
    net = Net(*arrays)
    most, actions, over = len(net.order[i]), len(net.mask[i]), net.state[i, OVER] != 0
    for d in range(most):
        row = i * most + d
        if over:
            for a in range(actions):
                masks[row, a] = a == actions - 1
        elif d < net.state[i, DCS]:
            write_mask(i, d, net)
            write_observation(i, d, row, net, views)
            for a in range(actions):
                masks[row, a] = net.mask[i, a]
        else:
            for a in range(actions):
                masks[row, a] = False
    if not over:
        write_mask(i, net.state[i, DC], net)


class ByValue:
    """Instead of the data center in turn, let the one act whose best legal action is worth most.

    The idea of Onsu et al., arXiv:2411.12851, with the value that the Q-network has learned. Waiting counts only
    where no data center can do anything else.
    """

    def __init__(self, env: ServiceChains, q: Callable[[Tensor], Tensor]) -> None:
        self.env, self.q = env, q
        self.most = env.net.order.shape[1]
        rows = env.num_envs * self.most
        self.views = torch.zeros(rows, *env.obs_spec.shape, device=env.device)
        self.masks = torch.zeros(rows, env.num_actions, dtype=torch.bool, device=env.device)
        self._launch = Kernel(observe_all_centers, PARALLEL_FROM).bind(
            env.num_envs, self.views, self.masks, *env.net
        )

    def __call__(self, obs: Tensor) -> Tensor:
        """The values of the chosen data center, whose turn it is from now on."""
        self._launch()
        n, actions = self.env.num_envs, self.env.num_actions
        q = self.q(self.views).masked_fill(~self.masks, -torch.inf).view(n, self.most, actions)
        best = q[..., :-1].amax(2)
        best = torch.where(best.isneginf(), q[..., -1] - 1e6, best)  # only waiting is left: last
        choice = best.argmax(1)  # [N]
        networks = torch.arange(n, device=q.device)
        self.env.net.state[:, DC] = choice.to(torch.int32)
        self.env.net.mask.copy_(self.masks.view(n, self.most, actions)[networks, choice])
        return q[networks, choice]
