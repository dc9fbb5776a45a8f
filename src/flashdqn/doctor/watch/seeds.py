"""Make a script repeat itself, as far as it can be done from outside: every generator that the script leaves to
chance gets a seed. A script that sets its own seeds does so later, and keeps them."""

from __future__ import annotations

import functools
import itertools
import random
from types import ModuleType
from typing import Any


class Seeds:
    """Seeds for everything that would take its own from the system."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._next = itertools.count(seed)

    @property
    def modules(self) -> dict[str, Any]:
        """What to do after the import of a module, by its name."""
        return {
            "numpy": self.seed_numpy,
            "torch": self.seed_torch,
            "gymnasium.utils.seeding": self.seed_spaces,
            "gym.utils.seeding": self.seed_spaces,
        }

    def begin(self) -> None:
        """Python's own generator."""
        random.seed(self.seed)

    def seed_numpy(self, numpy: ModuleType) -> None:
        """The global generator, and new ones that are made without a seed."""
        numpy.random.seed(self.seed)
        numpy.random.default_rng = self.with_seed(numpy.random.default_rng)

    def seed_torch(self, torch: ModuleType) -> None:
        """The global generators of all devices."""
        torch.manual_seed(self.seed)

    def seed_spaces(self, seeding: Any) -> None:
        """Gymnasium's environments and spaces: `reset()` without a seed asks here."""
        seeding.np_random = self.with_seed(seeding.np_random)

    def with_seed(self, original: Any) -> Any:
        """The same function, which is given a seed where the script gives none."""

        @functools.wraps(original)
        def seeded(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
            return original(next(self._next) if seed is None else seed, *args, **kwargs)

        return seeded
