"""Adam, AdamW and RAdam on one flat tensor. Learning rate and step count are tensors: a graph can hold a step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from flashdqn.config import LearnConfig
from flashdqn.core.saved import require_finite
from flashdqn.learn.flat import Flat, make_zeros_apart

BETA1, BETA2 = 0.9, 0.999
#: The length of RAdam's longest moving average, ρ_∞.
RHO_INF = 2 / (1 - BETA2) - 1


class Hyperparameters(NamedTuple):
    """The numbers of Adam's step: one for a single learner, or tensors [K, 1], one for each of K agents."""

    lr: Tensor
    eps: float | Tensor
    weight_decay: float | Tensor


class Adam:
    """The optimizer's state, and one step: by PyTorch's fused kernel, or by the formula, which compiles well."""

    def __init__(self, config: LearnConfig, flat: Flat, lr: Tensor) -> None:
        self.config, self.flat, self.lr = config, flat, lr
        self.first = make_zeros_apart(flat.values)  # m: mean of the gradients
        self.second = make_zeros_apart(flat.values)  # v: mean of their squares
        self.steps = torch.zeros((), device=flat.values.device)

    @property
    def has_native_step(self) -> bool:
        """Whether the hand-written step in `adam_cpu.py` supports this rule."""
        return self.config.optimizer != "radam"

    def step(self) -> None:
        """Move the parameters by their gradient."""
        if not self.has_native_step:  # PyTorch has no fused kernel for it either
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
        config = self.config
        hyper = Hyperparameters(self.lr, config.adam_eps, config.weight_decay)
        move_by_adam(
            self.flat.values, self.first, self.second, self.steps, gradient, hyper, rule=config.optimizer
        )

    def state_dict(self) -> dict[str, Tensor]:
        """The moments and the number of steps."""
        return {"first": self.first, "second": self.second, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint."""
        require_finite("the optimizer's number of steps", state["steps"])
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


def move_by_adam(
    values: Tensor,
    first: Tensor,
    second: Tensor,
    steps: Tensor,
    gradient: Tensor,
    hyper: Hyperparameters,
    rule: str = "adam",
) -> None:
    """One step, in place. Tensors are [P], or [K, P] for K agents that step together; `steps` is a scalar."""
    steps.add_(1)
    if rule == "adamw":
        values.mul_(1 - hyper.lr * hyper.weight_decay)
    first.lerp_(gradient, 1 - BETA1)
    second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    mean = first / bias_correction(BETA1, steps)
    bias2 = bias_correction(BETA2, steps)
    if rule == "radam":
        scale = bias2.sqrt() / (second.sqrt() + hyper.eps)
        values.sub_(hyper.lr * mean * rectify_scale(steps, scale))
    else:
        values.sub_(hyper.lr * mean / ((second / bias2).sqrt() + hyper.eps))


def clip_by_norm(gradient: Tensor, limit: float | Tensor) -> tuple[Tensor, Tensor]:
    """The gradient, [P] or [K, P], clipped to the norm `limit` (0: not clipped), and its norm before that."""
    norm = torch.linalg.vector_norm(gradient)
    if gradient.dim() > 1:
        norm = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)  # of each agent
    if isinstance(limit, float | int) and not limit:
        return gradient, norm
    return gradient * (limit / (norm + 1e-6)).clamp(max=1.0), norm


def bias_correction(beta: float, steps: Tensor) -> Tensor:
    """1 − β^t. With a float32 power, 1 − 0.999 would keep five digits, and RAdam's ρ_t not even two."""
    return -torch.expm1(steps * math.log(beta))


def rectify_scale(steps: Tensor, scale: Tensor) -> Tensor:
    """RAdam's adaptive rate, times its rectification; 1 while the variance cannot be estimated (ρ_t ≤ 5)."""
    share = bias_correction(BETA2, steps)
    rho = RHO_INF - 2 * steps * (1 - share) / share
    square = (rho - 4) * (rho - 2) * RHO_INF / ((RHO_INF - 4) * (RHO_INF - 2) * rho)
    return torch.where(rho > 5, square.clamp(min=0).sqrt() * scale, torch.ones_like(scale))
