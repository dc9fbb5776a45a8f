"""Adam, AdamW and RAdam on one flat tensor. Learning rate and step count are tensors: a graph can hold a step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from flashdqn.config import LearnConfig
from flashdqn.learn.flat import Flat

BETA1, BETA2 = 0.9, 0.999
#: The length of RAdam's longest moving average, ρ_∞.
RHO_INF = 2 / (1 - BETA2) - 1


class Adam:
    """The optimiser's state, and one step: by PyTorch's fused kernel, or by the formula, which compiles well."""

    def __init__(self, config: LearnConfig, flat: Flat, lr: Tensor) -> None:
        self.config, self.flat, self.lr = config, flat, lr
        self.first = torch.zeros_like(flat.values)  # m: mean of the gradients
        self.second = torch.zeros_like(flat.values)  # v: mean of their squares
        self.steps = torch.zeros((), device=flat.values.device)

    @property
    def fused(self) -> bool:
        """Whether there are fused kernels of this kind, PyTorch's and our own: there are none for RAdam."""
        return self.config.optimizer != "radam"

    def step(self) -> None:
        """Move the parameters by their gradient."""
        if not self.fused:
            self.step_by_formula(self.flat.gradient)
            return
        fused = torch._fused_adamw_ if self.config.optimizer == "adamw" else torch._fused_adam_
        self.steps.add_(1)
        fused(
            [self.flat.values],
            [self.flat.gradient],
            [self.first],
            [self.second],
            [],
            [self.steps],
            lr=self.lr,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=self.config.weight_decay,
            eps=self.config.adam_eps,
            amsgrad=False,
            maximize=False,
        )

    def step_by_formula(self, gradient: Tensor) -> None:
        """The same in plain operations (Kingma & Ba 2015; Loshchilov & Hutter 2019; Liu et al. 2020)."""
        values, lr, eps = self.flat.values, self.lr, self.config.adam_eps
        self.steps.add_(1)
        if self.config.optimizer == "adamw":
            values.mul_(1 - lr * self.config.weight_decay)
        self.first.lerp_(gradient, 1 - BETA1)
        self.second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        mean = self.first / bias_correction(BETA1, self.steps)
        bias2 = bias_correction(BETA2, self.steps)
        if self.config.optimizer == "radam":
            scale = bias2.sqrt() / (self.second.sqrt() + eps)
            values.sub_(lr * mean * rectify_scale(self.steps, scale))
        else:
            values.sub_(lr * mean / ((self.second / bias2).sqrt() + eps))

    def state_dict(self) -> dict[str, Tensor]:
        """The moments and the number of steps."""
        return {"first": self.first, "second": self.second, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


def bias_correction(beta: float, steps: Tensor) -> Tensor:
    """1 − β^t. Taken from 1, a float32 power would leave five digits of 1 − 0.999, and of RAdam's ρ_t not two."""
    return -torch.expm1(steps * math.log(beta))


def rectify_scale(steps: Tensor, scale: Tensor) -> Tensor:
    """RAdam's adaptive rate, times its rectification; 1 while the variance cannot be estimated (ρ_t ≤ 5)."""
    share = bias_correction(BETA2, steps)
    rho = RHO_INF - 2 * steps * (1 - share) / share
    square = (rho - 4) * (rho - 2) * RHO_INF / ((RHO_INF - 4) * (RHO_INF - 2) * rho)
    return torch.where(rho > 5, square.clamp(min=0).sqrt() * scale, torch.ones_like(scale))
