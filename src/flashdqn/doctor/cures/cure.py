"""A cure: what it answers, how it is put into a script, and what it may change in the numbers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cure:
    """One change, of settings or of the source, that is tried on a script from outside."""

    name: str
    """Lower case with hyphens, the same in every report."""
    finding: str
    """The name of the finding that it answers."""
    what: str
    """What is changed, as a line of code or a few words."""
    predicted: float
    """The finding's own prediction of the gain; 1.0: it is not about speed."""
    injections: tuple[tuple[str, dict[str, object]], ...] = ()
    """Names and settings of `watch/injections.py`."""
    replaced: dict[str, str] = field(default_factory=dict)
    """New texts of source files, by path."""
    changes: str = ""
    """What it may change in the numbers, in words; empty: nothing."""
    unit: str = ""
    """What counts as work: `transitions` or `updates`; empty: transitions where they are counted."""
    changes_learning: bool = False
    """Whether it learns from less or from other data, so that other numbers are what it is meant to do."""
