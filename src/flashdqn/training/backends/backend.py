"""The one interface through which a training runs: acting, recording, sampling and updating.

A backend is made for the parts of one training and holds whatever it needs to run them its own way: by PyTorch's
operations (`eager.py`), compiled by PyTorch (`compiled.py`), or written by hand (`cpu/`, `cuda/`). It changes
nothing in the parts, so that the next backend can take over at any moment. All of them draw the same random numbers
in the same order, so that all learn the same but for rounding.

Two axes are open:

- **agents**: every tensor may have a leading axis of K agents, observations [K · N, …] and parameters [K, P], with
  hyperparameters as tensors [K, 1] (`learn.adam.Hyperparameters`). Nothing in the loop looks inside.
- **ranks**: `Parts.exchange` is called with the flat gradient between backward and Adam; a backend that cannot stop
  there says so in `fits`.
"""

from __future__ import annotations

from typing import Protocol

from flashdqn.core.types import Batch
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.collector import Player


class Backend(Player, Protocol):
    """How a training runs."""

    #: whether PyTorch compiles `record` at its first call: then the games must be played once to warm it up
    compiles_recording: bool

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        """Made for the parts of one training; the compiler keeps what others have compiled for the same."""

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """Why it cannot run these parts, in words that follow "does not work here:"; None where it can."""

    def sample(self, count: int) -> list[Batch]:
        """What the next `count` updates learn from; only `update` looks inside. A graph can hold it."""

    def update(self, batches: list[Batch]) -> None:
        """The gradient steps on what `sample` gave; their priorities go to the sampler. A graph can hold it."""
