"""Do something as soon as the script has imported a module, and not before."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .frames import PLUMBING

STANDARD: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())
#: Libraries that do not define environments or replays; torch itself is of interest, its many parts are not.
PASSED = (frozenset(PLUMBING) - {"gymnasium", "gym"}) | {"pip", "setuptools", "pkg_resources"}

Action = Callable[[ModuleType], None]


class AfterImport(importlib.abc.MetaPathFinder):
    """Lets the other finders find a module, and adds an action after its import."""

    def __init__(self, special: dict[str, Action], usual: Action) -> None:
        self.special = special
        self.usual = usual

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module with the other finders, and add the action."""
        top = fullname.partition(".")[0]
        action = self.special.get(fullname)
        if action is None and (top in STANDARD or top in PASSED):
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                loader = spec.loader
                if loader is not None and hasattr(loader, "exec_module") and hasattr(loader, "create_module"):
                    spec.loader = Followed(loader, action or self.usual)
                return spec
        return None


class Followed(importlib.abc.Loader):
    """A loader with an action after it."""

    def __init__(self, loader: importlib.abc.Loader, action: Action) -> None:
        self.loader = loader
        self.action = action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Create the module with the original loader."""
        spec.loader = self.loader  # the module must look as if it was loaded the usual way
        try:
            return self.loader.create_module(spec)
        finally:
            spec.loader = self

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with the original loader, then the action."""
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.action(module)

    def __getattr__(self, name: str) -> Any:
        # Many callers only ask whether a module exists, and look at its loader.
        return getattr(self.loader, name)
