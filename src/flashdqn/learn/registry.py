"""One registry for every axis: a name stands for a built-in entry, or for the user's own code as module:Name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flashdqn.config.axes import VariantAxis

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A built-in choice: one line about it, its small configuration, and `make(configuration, *parts)`."""

    about: str
    config: type[Any]
    make: Callable[..., T]


class Registry(Generic[T]):
    """The built-in entries of an axis, and how a user's variant is made: `make_own(name, kwargs, *parts)`."""

    def __init__(
        self, axis: VariantAxis, makers: Mapping[str, Callable[..., T]], make_own: Callable[..., T]
    ) -> None:
        if makers.keys() != axis.choices.keys():
            raise ValueError(
                f"{axis.key} has the choices {list(axis.choices)}, and makers for {list(makers)}."
            )
        self.axis, self.make_own = axis, make_own
        self.entries = {
            name: Entry(choice.about, choice.config, makers[name]) for name, choice in axis.choices.items()
        }

    def build(self, name: str, group: Any, kwargs: dict[str, Any], *parts: Any) -> T:
        """Build what a name stands for. A built-in entry takes its settings from the axis's group, a user's variant
        takes `kwargs`."""
        if name in self.entries:
            return self.entries[name].make(self.axis.read(name, group), *parts)
        return self.make_own(name, kwargs, *parts)
