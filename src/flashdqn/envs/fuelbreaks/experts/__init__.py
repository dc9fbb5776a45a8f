"""Experts that place breaks by rules, to compare with and to learn from.

    domirank     cells that dominate their neighbors in the graph of fire spread (`domirank.py`)
    betweenness  cells through which most of the fastest fire paths lead, counted again after every break
                 (`betweenness.py`)
    dpv          cells behind which fires destroy most: Downstream Protection Value (`dpv.py`)
    lookahead    the cell that saves most over the expert's own fires, tried one by one (`lookahead.py`)

An expert gives a score to every cell of every board in its current state, and takes the best legal one. None
of them knows where the environment's own fires start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from flashdqn.core.ops import masked_argmax
from flashdqn.envs.fuelbreaks.experts.betweenness import Betweenness
from flashdqn.envs.fuelbreaks.experts.domirank import DomiRank
from flashdqn.envs.fuelbreaks.experts.dpv import DownstreamValue
from flashdqn.envs.fuelbreaks.experts.lookahead import Lookahead

if TYPE_CHECKING:
    from flashdqn.envs.fuelbreaks.env import FuelBreaks

__all__ = ["EXPERTS", "Betweenness", "DomiRank", "DownstreamValue", "Expert", "Lookahead", "Scores"]


class Scores(Protocol):
    """How good a break would be in each cell."""

    def scores(self) -> Tensor:
        """[N, cells], larger is better, for the boards as they are now."""


class Expert:
    """Takes the best legal cell by its scores."""

    def __init__(self, env: FuelBreaks, judge: Scores) -> None:
        self.env, self.judge = env, judge

    def __call__(self) -> Tensor:
        """An action for every board, [N] int64."""
        return masked_argmax(self.judge.scores(), self.env.mask)


#: By name, functions that make an expert from an environment and a seed.
EXPERTS: dict[str, Callable[[FuelBreaks, int], Expert]] = {
    "domirank": lambda env, seed: Expert(env, DomiRank(env, env.config.sigma)),
    "betweenness": lambda env, seed: Expert(env, Betweenness(env)),
    "dpv": lambda env, seed: Expert(env, DownstreamValue(env, seed)),
    "lookahead": lambda env, seed: Expert(env, Lookahead(env, seed)),
}
