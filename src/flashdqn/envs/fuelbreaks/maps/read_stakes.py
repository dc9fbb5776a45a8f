"""All maps of a landscape at once."""

from __future__ import annotations

from pathlib import Path

from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.maps.forbidden import read_forbidden
from flashdqn.envs.fuelbreaks.maps.ignition import read_ignition
from flashdqn.envs.fuelbreaks.maps.value import read_value
from flashdqn.envs.fuelbreaks.read.notes import TellNote, log_note
from flashdqn.envs.fuelbreaks.stakes import Stakes


def read_stakes(
    landscape: Landscape,
    value: Path | None = None,
    ignition: Path | None = None,
    forbidden: Path | None = None,
    value_attribute: str = "",
    tell: TellNote = log_note,
) -> Stakes:
    """What fires threaten, where they start, and where breaks may not lie; None for a map that is not given."""
    return Stakes(
        value=None if value is None else read_value(value, landscape, value_attribute, tell=tell),
        ignition=None if ignition is None else read_ignition(ignition, landscape, tell=tell),
        forbidden=None if forbidden is None else read_forbidden(forbidden, landscape, tell=tell),
    )
