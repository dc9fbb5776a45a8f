"""The one interface through which a training runs: acting, recording, sampling and updating.

A backend is created for the parts of one training and holds what it needs to run them its own way: with PyTorch's
operations (`eager.py`), compiled by PyTorch (`compiled.py`), or written by hand (`cpu/`, `cuda/`). It does not
change the parts, so the next backend can take over at any moment. All backends draw the same random numbers in the
same order, so all learn the same except for rounding.

Two axes are open:

- **agents**: every tensor may have a leading axis of K agents, observations [K · N, …] and parameters [K, P], with
  hyperparameters as tensors [K, 1] (`learn.adam.Hyperparameters`). Nothing in the loop looks inside.
- **ranks**: `Parts.exchange` is called with the flat gradient between backward and Adam; a backend that cannot stop
  there says so in `fits`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from flashdqn.core.types import Batch
from flashdqn.training.assemble import Parts
from flashdqn.training.backends.compiler import Compiler
from flashdqn.training.collector import Player


class Backend(Player, Protocol):
    """How a training runs."""

    #: whether PyTorch compiles `record` at its first call: then the warm-up must play the games once
    compiles_recording: bool

    def __init__(self, parts: Parts, compiler: Compiler) -> None:
        """Create it for the parts of one training; the compiler keeps what was compiled for the same training."""

    @classmethod
    def fits(cls, parts: Parts) -> str | None:
        """Why it cannot run these parts, in words that follow "does not work here:"; None if it can."""

    def sample(self, count: int) -> list[Batch]:
        """The batches for the next `count` updates; only `update` looks inside. A graph can hold it."""

    def update(self, batches: list[Batch]) -> None:
        """The gradient steps on `sample`'s batches; their priorities go to the sampler. A graph can hold it."""


@runtime_checkable
class DecidingBackend(Protocol):
    """A backend that can run whole iterations without the host."""

    def iterate(self, count: int) -> None:
        """`count` iterations, each a step of every environment and the updates that are due then: ε, learning rate
        and the number of updates follow on the device from the counts that lie there. A graph can hold it; a graph
        of several iterations and as many of one do the same, bit by bit."""
