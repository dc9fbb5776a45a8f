"""Clipping, Adam and the soft target update in one pass over the parameters, on the CPU."""

from __future__ import annotations

import math

import torch
from numpy import sqrt
from torch import Tensor

from flashdqn.envs.kernels import Array, scalar
from flashdqn.learn.adam import BETA1, BETA2, Adam
from flashdqn.runtime.native import bound


@scalar
def adam_pass(
    values: Array, gradient: Array, first: Array, second: Array, target: Array, numbers: Array
) -> None:
    """One step for every parameter; `numbers` are float32, so that all of it is."""
    clip, rate, decay, root = numbers[0], numbers[1], numbers[2], numbers[3]
    eps, keep1, add1, keep2 = numbers[4], numbers[5], numbers[6], numbers[7]
    add2, tau = numbers[8], numbers[9]
    for i in range(len(values)):
        g = gradient[i] * clip
        m = keep1 * first[i] + add1 * g
        v = keep2 * second[i] + add2 * g * g
        first[i], second[i] = m, v
        values[i] = decay * values[i] - rate * m / (sqrt(v) * root + eps)
    if tau > 0:
        for i in range(len(target)):
            target[i] += tau * (values[i] - target[i])


class NativeAdam:
    """Adam or AdamW on the learner's tensors; moves the target by `tau` (0: not at all)."""

    def __init__(self, adam: Adam, target: Tensor, tau: float) -> None:
        self.adam, self.tau = adam, tau
        self.numbers = torch.zeros(10)
        own = [adam.flat.values, adam.flat.gradient, adam.first, adam.second, target, self.numbers]
        self._pass = bound(adam_pass, own, [])
        self._numbers = self.numbers.numpy()

    def __call__(self, norm: float) -> None:
        """One step, with the gradient cut to the largest norm that is allowed."""
        adam, config = self.adam, self.adam.config
        steps = float(adam.steps.add_(1))
        lr = float(adam.lr)
        clip = min(1.0, config.grad_clip / (norm + 1e-6)) if config.grad_clip else 1.0
        rate = lr / -math.expm1(steps * math.log(BETA1))
        root = 1 / math.sqrt(-math.expm1(steps * math.log(BETA2)))
        decay = 1 - lr * config.weight_decay
        self._numbers[:] = (
            clip, rate, decay, root, config.adam_eps, BETA1, 1 - BETA1, BETA2, 1 - BETA2, self.tau,
        )  # fmt: skip
        self._pass()
