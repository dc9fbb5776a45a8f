"""What a landscape's fires threaten, where they start, and where breaks may lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flashdqn.core.errors import EnvError

#: The largest worth of a cell: all cells of a fire together must fit into 31 bits.
MOST_WORTH = 1000


@dataclass(frozen=True, eq=False)
class Stakes:
    """Maps of one landscape, [H, W] each; None where nothing is said."""

    value: NDArray[np.float32] | None = None
    """What is lost if a cell burns, such as houses; None: every cell counts the same, so area is protected."""
    ignition: NDArray[np.float32] | None = None
    """How likely a fire starts in a cell, in any unit; None: all burnable cells alike."""
    forbidden: NDArray[np.bool_] | None = None
    """Cells where no break may lie."""

    def __post_init__(self) -> None:
        for name in ("value", "ignition"):
            given = getattr(self, name)
            if given is None:
                continue
            array = np.array(given, dtype=np.float32)
            bad = ~(np.isfinite(array) & (array >= 0))
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise EnvError(
                    f"The map of {name} must hold numbers from 0 up, and holds {array[row, column]:g} in row "
                    f"{row}, column {column}."
                )
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.forbidden is not None:
            forbidden = np.array(self.forbidden, dtype=np.bool_)
            forbidden.setflags(write=False)
            object.__setattr__(self, "forbidden", forbidden)

    def check_shape(self, shape: tuple[int, int]) -> None:
        """Refuse maps of another shape than the landscape's."""
        for name in ("value", "ignition", "forbidden"):
            given = getattr(self, name)
            if given is not None and given.shape != shape:
                raise EnvError(
                    f"The map of {name} has {given.shape[0]} x {given.shape[1]} cells, and the landscape "
                    f"{shape[0]} x {shape[1]}."
                )

    def worth(self, shape: tuple[int, int]) -> NDArray[np.int32]:
        """What is lost if a cell burns, in whole units, [H · W]: 1 without a map. Whole numbers up to `MOST_WORTH`
        stay as they are; other maps are scaled so that their largest number is that."""
        if self.value is None:
            return np.ones(shape[0] * shape[1], dtype=np.int32)
        value = self.value.astype(np.float64).reshape(-1)
        largest = value.max()
        if largest <= 0:
            raise EnvError("The map of value is 0 everywhere: there is nothing to protect.")
        if largest > MOST_WORTH or not np.array_equal(value, np.round(value)):
            value = value * (MOST_WORTH / largest)
        return np.round(value).astype(np.int32)

    def ignition_density(self, burnable: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The probability that a fire starts in each cell, [H · W]; only burnable cells, [H · W] bool, count. 0
        everywhere if nothing burns."""
        weight = burnable.astype(np.float64)
        if not burnable.any():
            return weight
        if self.ignition is not None:
            weight = weight * self.ignition.reshape(-1)
        total = weight.sum()
        if total <= 0:
            raise EnvError("The map of ignition is 0 in all cells that burn: no fire can start.")
        density: NDArray[np.float64] = weight / total
        return density

    def ignition_cells(self, burnable: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Cells such that a random one of the list is a random ignition: all burnable ones without a map; else, for
        each of H · W equal steps of probability, the cell in its middle."""
        if self.ignition is None or not burnable.any():
            return np.flatnonzero(burnable).astype(np.int32)
        steps = (np.arange(len(burnable)) + 0.5) / len(burnable)
        reached = np.cumsum(self.ignition_density(burnable))
        return np.searchsorted(reached / reached[-1], steps).astype(np.int32)
