"""Something that is put into a running script from outside: what all injections share."""

from __future__ import annotations

from typing import Any


class Injection:
    """A cure inside the script's process. `modules` are those after whose import it acts."""

    modules: tuple[str, ...] = ("torch",)

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.settings = settings
        self.applied: dict[str, int] = {}
        self.failures: list[str] = []

    def begin(self) -> None:
        """Before the script's first line."""

    def imported(self, module: Any) -> None:
        """After the import of one of its modules; what goes wrong is noted, and the script goes on."""
        try:
            self.change(module)
        except Exception as error:
            self.failures.append(f"{self.name}: {type(error).__name__}: {error}"[:200])

    def change(self, module: Any) -> None:
        """Change the module."""

    def note(self, what: str) -> None:
        """Note that something was changed."""
        self.applied[what] = self.applied.get(what, 0) + 1

    def list_applied(self) -> list[str]:
        """What was changed, and how often."""
        return [what if count == 1 else f"{what} ({count:,} times)" for what, count in self.applied.items()]


class Keep(Injection):
    """A patched source is run in the place of the script's: nothing to inject."""

    modules: tuple[str, ...] = ()

    def begin(self) -> None:
        """Note it."""
        self.note("the patched source")
