"""Your own variant, in one file. In this folder:

    flashdqn train snake-flood --learn.bootstrap own_variant:Mellowmax
    flashdqn train snake-flood --learn.bootstrap own_variant:Mellowmax --learn.bootstrap-kwargs '{"omega": 20}'

A bootstrap says what the next state is worth. This one takes the mellowmax of its action values instead of their
maximum: a softer operator that is a non-expansion (Asadi & Littman 2017, arXiv:1612.05628). It works with every
head, every sampler and every network. `python examples/own_variant.py` shows what ω does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from flashdqn.core.types import Transition
from flashdqn.learn.bootstraps import Net, soft_policy
from flashdqn.learn.heads import Head


def mellowmax(q: Tensor, mask: Tensor | None, omega: float) -> Tensor:
    """log(mean(exp(ω Q))) / ω over the legal actions, [B]: from their mean (ω → 0) to their maximum (ω → ∞)."""
    legal = torch.ones_like(q, dtype=torch.bool) if mask is None else mask | ~mask.any(1, keepdim=True)
    total = torch.logsumexp((omega * q).masked_fill(~legal, -math.inf), 1)
    return (total - legal.sum(1).log()) / omega


@dataclass(frozen=True)
class Mellowmax:
    """r + γ mm_ω Q⁻(s', ·): the target network alone chooses and judges."""

    omega: float = 10.0

    def __call__(self, online: Net, target: Net, transition: Transition, head: Head) -> Tensor:
        """The head's target value, [B, …]."""
        output = target(transition.next_obs)
        q = head.q(output)  # [B, A]
        policy, _ = soft_policy(q, transition.next_mask, 1 / self.omega)  # [B, A]
        # A head may hold a whole distribution: take the soft policy's, and shift its mean to the mellowmax.
        shift = mellowmax(q, transition.next_mask, self.omega) - (policy * q).sum(1)
        reward = transition.reward + transition.discount * shift
        return head.target(head.expect(output, policy), reward, transition.discount)


if __name__ == "__main__":
    q = torch.tensor([[0.0, 1.0, 2.0]])
    for omega in (0.01, 1.0, 10.0, 100.0):
        print(f"omega {omega:g}: the mellowmax of {q[0].tolist()} is {float(mellowmax(q, None, omega)):.3f}")
