"""A sum tree by definition: a list of weights, and loops over it in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import torch


class TreeTwin:
    """Weights as the float32 numbers that the tree stores; their sums are exact."""

    def __init__(self, slots: int) -> None:
        self.weights = [0.0] * slots

    def set(self, index: list[int], weight: list[float]) -> None:
        """Of several weights for one leaf the largest wins."""
        for i in index:
            self.weights[i] = 0.0
        for i, w in zip(index, as_float32(weight), strict=True):
            self.weights[i] = max(self.weights[i], w)

    @property
    def total(self) -> Fraction:
        return sum(map(Fraction, self.weights), Fraction(0))

    def edges(self) -> list[Fraction]:
        """The masses that belong to leaf i: from edge i up to, but not including, edge i + 1."""
        return list(accumulate(map(Fraction, self.weights), initial=Fraction(0)))

    def find(self, mass: float) -> int:
        """The first leaf at which the sum exceeds the mass; beyond the end the last leaf with a weight."""
        upto = Fraction(0)
        found = 0
        for leaf, weight in enumerate(self.weights):
            upto += Fraction(weight)
            if weight > 0:
                found = leaf
                if upto > Fraction(mass):
                    break
        return found


def as_float32(numbers: list[float]) -> list[float]:
    rounded: list[float] = torch.tensor(numbers, dtype=torch.float32).tolist()
    return rounded
