"""Clipping, Adam and the soft target update in one pass over the parameters, on the CPU."""

from __future__ import annotations

import math

import numba
import numpy as np
import torch
from torch import Tensor

from flashdqn.compute.kernels import Array, Scalar, inner
from flashdqn.compute.native import compile_native
from flashdqn.learn.adam import BETA1, BETA2, Adam

SINGLE = np.float32

# The entries of `settings`: the numbers of a step, and the steps so far.
LR, WEIGHT_DECAY, GRAD_CLIP, EPS, TAU, STEPS = range(6)


@inner
def adam_step(
    values: Array, gradient: Array, first: Array, second: Array, target: Array, settings: Array, norm: Scalar,
    step: Scalar,
) -> None:  # fmt: skip
    """One step for every parameter and, if there is a target, its soft update. `settings` is as in `AdamSettings`,
    `norm` is the norm of the whole gradient; `step` counts from the steps in `settings`. All of it is done in
    float32."""
    lr, decayed, limit = settings[LR], settings[WEIGHT_DECAY], settings[GRAD_CLIP]
    eps, tau, steps = settings[EPS], settings[TAU], settings[STEPS]
    clip = SINGLE(min(1.0, limit / (norm + 1e-6)) if limit > 0.0 else 1.0)
    rate = SINGLE(lr / -math.expm1((steps + step) * math.log(BETA1)))
    root = SINGLE(1.0 / math.sqrt(-math.expm1((steps + step) * math.log(BETA2))))
    decay, least, part = SINGLE(1.0 - lr * decayed), SINGLE(eps), SINGLE(tau)
    keep1, add1, keep2, add2 = SINGLE(BETA1), SINGLE(1 - BETA1), SINGLE(BETA2), SINGLE(1 - BETA2)
    for i in range(len(values)):
        g = gradient[i] * clip
        m = keep1 * first[i] + add1 * g
        v = keep2 * second[i] + add2 * g * g
        first[i], second[i] = m, v
        values[i] = decay * values[i] - rate * m / (np.sqrt(v) * root + least)
    for i in range(len(target)):
        target[i] += part * (values[i] - target[i])


class AdamSettings:
    """The numbers of a step in one array: learning rate, weight decay, largest norm, ε, τ, and steps so far."""

    def __init__(self, adam: Adam, tau: float) -> None:
        config = adam.config
        self.array = np.array([0.0, config.weight_decay, config.grad_clip, config.adam_eps, tau, 0.0])
        self._lr, self._steps = adam.lr.view(1).numpy(), adam.steps.view(1).numpy()

    def now(self) -> Array:
        """The array with the current learning rate and number of steps."""
        self.array[LR], self.array[STEPS] = self._lr[0], self._steps[0]
        return self.array

    def count(self, steps: int) -> None:
        """Count `steps` more steps."""
        self._steps[0] += steps


class NativeAdam:
    """Adam or AdamW on the learner's tensors; also moves the target by `tau` (0: not at all)."""

    def __init__(self, adam: Adam, target: Tensor, tau: float) -> None:
        self.settings = AdamSettings(adam, tau)
        moved = target if tau > 0 else torch.zeros(0)
        own = [adam.flat.values, adam.flat.gradient, adam.first, adam.second, moved]
        self._arrays = [*(tensor.numpy() for tensor in own), self.settings.array]
        signature = (*map(numba.typeof, self._arrays), numba.float64, numba.int64)
        self._step = compile_native(adam_step, signature)

    def __call__(self, norm: float) -> None:
        """One step, with the gradient clipped to the largest norm allowed."""
        self.settings.now()
        self._step(*self._arrays, norm, 1)
        self.settings.count(1)
