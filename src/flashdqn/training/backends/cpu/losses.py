"""A loss in the numbers that the hand-written update takes: the head, the bootstrap and the margin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from flashdqn.learn.bootstraps import Bootstrap, Munchausen, double_target, given_target
from flashdqn.learn.distributional import CategoricalHead, QuantileHead
from flashdqn.learn.heads import Head, ScalarHead
from flashdqn.learn.loss import Margin
from flashdqn.training.backends.cpu import heads
from flashdqn.training.backends.cpu.variants import (
    run_categorical_updates,
    run_quantile_updates,
    run_scalar_updates,
)


class LossPlan(NamedTuple):
    """What `variants.py` must know of a loss."""

    kernel: Callable[..., None]
    bootstrap: int
    size: int  # numbers per action
    numbers: np.ndarray[Any, Any]
    atoms: np.ndarray[Any, Any]


def plan_loss(head: Head, bootstrap: Bootstrap, margin: Margin | None) -> LossPlan:
    """The numbers of a loss that is known (see `networks.explain_unknown`)."""
    numbers = np.zeros(heads.NUMBERS, dtype=np.float32)
    atoms, kernel = np.zeros(1, dtype=np.float32), run_scalar_updates
    if isinstance(head, CategoricalHead):
        kernel, atoms = run_categorical_updates, head.support.numpy()
        numbers[heads.V_MIN], numbers[heads.STEP] = head.v_min, head.step
    elif isinstance(head, QuantileHead):
        kernel, atoms = run_quantile_updates, head.tau.numpy()
        numbers[heads.HUBER] = head.huber
    elif isinstance(head, ScalarHead):
        numbers[heads.HUBER] = head.huber or np.inf  # Huber's loss with δ = ∞ is the square
    code = heads.DOUBLED if bootstrap is double_target else heads.GREEDY
    if bootstrap is given_target:
        code = heads.GIVEN
    if isinstance(bootstrap, Munchausen):
        code = heads.MUNCHAUSEN
        numbers[heads.ALPHA], numbers[heads.TEMPERATURE] = bootstrap.alpha, bootstrap.tau
        numbers[heads.LOWEST_LOG] = bootstrap.clip
    if margin is not None:
        numbers[heads.GAP], numbers[heads.MARGIN_WEIGHT] = margin.gap, margin.weight
    return LossPlan(kernel, code, head.size, numbers, atoms)
