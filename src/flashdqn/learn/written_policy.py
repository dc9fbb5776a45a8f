"""ε-greedy actions of a plain MLP on the CPU: three matrix products and one compiled loop."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from flashdqn.envs.kernels import Array, scalar
from flashdqn.learn.written import Forward, linears
from flashdqn.runtime.native import bound


@scalar
def choose_actions(q: Array, action: Array, legal: Array, eps: Array, luck: Array) -> None:
    """As `collector.explore`: the best legal action, or with probability ε_i a random legal one. q is [A, N]."""
    for i in range(len(action)):
        if luck[0, i] < eps[i]:
            count = 0
            for a in range(len(q)):
                count += legal[i, a]
            nth = min(int(luck[1, i] * np.float32(count)), count - 1)
            for a in range(len(q)):
                nth -= legal[i, a]
                if nth < 0:
                    action[i] = a
                    break
        else:
            best, chosen = q[0, i], -1
            for a in range(len(q)):
                value = q[a, i]
                # NaN counts as the largest, as for torch.argmax
                if legal[i, a] and (chosen < 0 or value > best or (value != value and best == best)):
                    best, chosen = value, a
            action[i] = max(chosen, 0)


class WrittenPolicy:
    """Chooses actions for so many environments; the network's parameters are bound when this is made."""

    def __init__(self, network: nn.Module, num_envs: int) -> None:
        layers = linears(network)
        self.x = torch.zeros(num_envs, layers[0].in_features)
        self.forward = Forward(layers, self.x)
        self.action = torch.zeros(num_envs, dtype=torch.int64)
        self.all_legal = torch.ones((num_envs, layers[-1].out_features), dtype=torch.bool)
        given = [self.all_legal, torch.zeros(num_envs), torch.zeros((2, num_envs))]
        self._choose = bound(choose_actions, [self.forward.q, self.action], given)

    def __call__(self, obs: Tensor, mask: Tensor | None, eps: Tensor, luck: Tensor) -> Tensor:
        """[N] int64, in a buffer that the next call overwrites."""
        self.x.copy_(obs.flatten(1))
        if obs.dtype == torch.uint8:
            self.x.div_(255)
        self.forward()
        self._choose((self.all_legal if mask is None else mask).numpy(), eps.numpy(), luck.numpy())
        return self.action
