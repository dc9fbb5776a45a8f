"""A plan: cells in the order in which they become breaks; and what fires say about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Plan:
    """Breaks of one policy, in order. The first n of them are its plan for a smaller budget."""

    policy: str  # agent, random, domirank, betweenness, betweenness-once, dpv, dpv-once, lookahead; or given
    order: NDArray[np.int64]  # [N] flat cells, row · columns + column
    seconds: float  # that planning took
    note: str = ""  # what was sampled, counted less often or left out, in a few words


@dataclass(frozen=True, eq=False)
class Losses:
    """What is lost without breaks or with some, over the F fires that judge; all plans meet the same fires."""

    area: NDArray[np.float64]  # [F] hectares burned by each fire
    value: (
        NDArray[np.float64] | None
    )  # [F] value lost, in the unit of the problem; None without a map of values
    burn_probability: NDArray[np.float32]  # [H, W]: share of the fires that burn a cell

    def counted(self) -> NDArray[np.float64]:
        """What the problem asks to keep low: value where there is a map of it, else area, [F]."""
        return self.area if self.value is None else self.value


@dataclass(frozen=True, eq=False)
class Judgement:
    """Plans of several policies at several budgets, judged by the same fires."""

    budgets: tuple[float, ...]  # what may be spent, in units of cost, growing
    before: Losses
    after: dict[str, tuple[Losses, ...]]  # by policy, one for each budget
    placed: dict[str, tuple[int, ...]]  # by policy, breaks placed at each budget
    fires: int
