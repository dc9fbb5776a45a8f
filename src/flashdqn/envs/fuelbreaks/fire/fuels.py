"""The standard fuel models: Anderson's 13 (Albini 1976, Anderson 1982) and the 40 of Scott & Burgan (2005).

A row holds: name, depth of the fuel bed (ft), dead fuel's moisture of extinction (%), loads of dead 1-h, 10-h
and 100-h fuel, live herbs and live wood, and the surface-to-volume ratios (1/ft) of dead 1-h fuel, herbs and
wood; 10-h fuel has 109/ft and 100-h fuel 30/ft everywhere. Loads are as published: lb/ft² for the 13,
tons/acre for the 40, which are converted to lb/ft² with four decimals, as in fire programs.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = tuple[str, float, int, tuple[float, float, float, float, float], tuple[int, int, int]]

_ANDERSON: dict[int, Row] = {
    1: ("short grass", 1.0, 12, (0.034, 0.0, 0.0, 0.0, 0.0), (3500, 0, 0)),
    2: ("timber, grass and understory", 1.0, 15, (0.092, 0.046, 0.023, 0.023, 0.0), (3000, 1500, 0)),
    3: ("tall grass", 2.5, 25, (0.138, 0.0, 0.0, 0.0, 0.0), (1500, 0, 0)),
    4: ("chaparral", 6.0, 20, (0.230, 0.184, 0.092, 0.230, 0.0), (2000, 1500, 0)),
    5: ("brush", 2.0, 20, (0.046, 0.023, 0.0, 0.092, 0.0), (2000, 1500, 0)),
    6: ("dormant brush, hardwood slash", 2.5, 25, (0.069, 0.115, 0.092, 0.0, 0.0), (1750, 0, 0)),
    7: ("southern rough", 2.5, 40, (0.052, 0.086, 0.069, 0.017, 0.0), (1750, 1550, 0)),
    8: ("closed timber litter", 0.2, 30, (0.069, 0.046, 0.115, 0.0, 0.0), (2000, 0, 0)),
    9: ("hardwood litter", 0.2, 25, (0.134, 0.019, 0.007, 0.0, 0.0), (2500, 0, 0)),
    10: ("timber, litter and understory", 1.0, 25, (0.138, 0.092, 0.230, 0.092, 0.0), (2000, 1500, 0)),
    11: ("light logging slash", 1.0, 15, (0.069, 0.207, 0.253, 0.0, 0.0), (1500, 0, 0)),
    12: ("medium logging slash", 2.3, 20, (0.184, 0.644, 0.759, 0.0, 0.0), (1500, 0, 0)),
    13: ("heavy logging slash", 3.0, 25, (0.322, 1.058, 1.288, 0.0, 0.0), (1500, 0, 0)),
}

_SCOTT_BURGAN: dict[int, Row] = {
    101: ("GR1", 0.4, 15, (0.10, 0.0, 0.0, 0.30, 0.0), (2200, 2000, 0)),
    102: ("GR2", 1.0, 15, (0.10, 0.0, 0.0, 1.00, 0.0), (2000, 1800, 0)),
    103: ("GR3", 2.0, 30, (0.10, 0.40, 0.0, 1.50, 0.0), (1500, 1300, 0)),
    104: ("GR4", 2.0, 15, (0.25, 0.0, 0.0, 1.90, 0.0), (2000, 1800, 0)),
    105: ("GR5", 1.5, 40, (0.40, 0.0, 0.0, 2.50, 0.0), (1800, 1600, 0)),
    106: ("GR6", 1.5, 40, (0.10, 0.0, 0.0, 3.40, 0.0), (2200, 2000, 0)),
    107: ("GR7", 3.0, 15, (1.00, 0.0, 0.0, 5.40, 0.0), (2000, 1800, 0)),
    108: ("GR8", 4.0, 30, (0.50, 1.00, 0.0, 7.30, 0.0), (1500, 1300, 0)),
    109: ("GR9", 5.0, 40, (1.00, 1.00, 0.0, 9.00, 0.0), (1800, 1600, 0)),
    121: ("GS1", 0.9, 15, (0.20, 0.0, 0.0, 0.50, 0.65), (2000, 1800, 1800)),
    122: ("GS2", 1.5, 15, (0.50, 0.50, 0.0, 0.60, 1.00), (2000, 1800, 1800)),
    123: ("GS3", 1.8, 40, (0.30, 0.25, 0.0, 1.45, 1.25), (1800, 1600, 1600)),
    124: ("GS4", 2.1, 40, (1.90, 0.30, 0.10, 3.40, 7.10), (1800, 1600, 1600)),
    141: ("SH1", 1.0, 15, (0.25, 0.25, 0.0, 0.15, 1.30), (2000, 1800, 1600)),
    142: ("SH2", 1.0, 15, (1.35, 2.40, 0.75, 0.0, 3.85), (2000, 0, 1600)),
    143: ("SH3", 2.4, 40, (0.45, 3.00, 0.0, 0.0, 6.20), (1600, 0, 1400)),
    144: ("SH4", 3.0, 30, (0.85, 1.15, 0.20, 0.0, 2.55), (2000, 1800, 1600)),
    145: ("SH5", 6.0, 15, (3.60, 2.10, 0.0, 0.0, 2.90), (750, 0, 1600)),
    146: ("SH6", 2.0, 30, (2.90, 1.45, 0.0, 0.0, 1.40), (750, 0, 1600)),
    147: ("SH7", 6.0, 15, (3.50, 5.30, 2.20, 0.0, 3.40), (750, 0, 1600)),
    148: ("SH8", 3.0, 40, (2.05, 3.40, 0.85, 0.0, 4.35), (750, 0, 1600)),
    149: ("SH9", 4.4, 40, (4.50, 2.45, 0.0, 1.55, 7.00), (750, 1800, 1500)),
    161: ("TU1", 0.6, 20, (0.20, 0.90, 1.50, 0.20, 0.90), (2000, 1800, 1600)),
    162: ("TU2", 1.0, 30, (0.95, 1.80, 1.25, 0.0, 0.20), (2000, 0, 1600)),
    163: ("TU3", 1.3, 30, (1.10, 0.15, 0.25, 0.65, 1.10), (1800, 1600, 1400)),
    164: ("TU4", 0.5, 12, (4.50, 0.0, 0.0, 0.0, 2.00), (2300, 0, 2000)),
    165: ("TU5", 1.0, 25, (4.00, 4.00, 3.00, 0.0, 3.00), (1500, 0, 750)),
    181: ("TL1", 0.2, 30, (1.00, 2.20, 3.60, 0.0, 0.0), (2000, 0, 0)),
    182: ("TL2", 0.2, 25, (1.40, 2.30, 2.20, 0.0, 0.0), (2000, 0, 0)),
    183: ("TL3", 0.3, 20, (0.50, 2.20, 2.80, 0.0, 0.0), (2000, 0, 0)),
    184: ("TL4", 0.4, 25, (0.50, 1.50, 4.20, 0.0, 0.0), (2000, 0, 0)),
    185: ("TL5", 0.6, 25, (1.15, 2.50, 4.40, 0.0, 0.0), (2000, 0, 1600)),
    186: ("TL6", 0.3, 25, (2.40, 1.20, 1.20, 0.0, 0.0), (2000, 0, 0)),
    187: ("TL7", 0.4, 25, (0.30, 1.40, 8.10, 0.0, 0.0), (2000, 0, 0)),
    188: ("TL8", 0.3, 35, (5.80, 1.40, 1.10, 0.0, 0.0), (1800, 0, 0)),
    189: ("TL9", 0.6, 35, (6.65, 3.30, 4.15, 0.0, 0.0), (1800, 0, 1600)),
    201: ("SB1", 1.0, 25, (1.50, 3.00, 11.00, 0.0, 0.0), (2000, 0, 0)),
    202: ("SB2", 1.0, 25, (4.50, 4.25, 4.00, 0.0, 0.0), (2000, 0, 0)),
    203: ("SB3", 1.2, 25, (5.50, 2.75, 3.00, 0.0, 0.0), (2000, 0, 0)),
    204: ("SB4", 2.7, 25, (5.25, 3.50, 5.25, 0.0, 0.0), (2000, 0, 0)),
}

TONS_PER_ACRE = 2000 / 43560  # lb/ft²
HEAT, HEAT_GR6 = 8000.0, 9000.0  # Btu/lb; only GR6 differs
DEAD_10H_RATIO, DEAD_100H_RATIO = 109.0, 30.0  # 1/ft

# The classes of fuel: dead 1-h, 10-h, 100-h, dead herbs (of dynamic models), live herbs, live wood.
DEAD, LIVE = slice(0, 4), slice(4, 6)
DEAD_1H, DEAD_10H, DEAD_100H, DEAD_HERBS, LIVE_HERBS, LIVE_WOOD, CLASSES = range(7)


class Fuels(NamedTuple):
    """All burnable fuel models as arrays over M models, in the units of the equations."""

    number: NDArray[np.int16]  # [M]
    depth: NDArray[np.float64]  # [M] ft
    extinction: NDArray[np.float64]  # [M] of dead fuel, fraction
    heat: NDArray[np.float64]  # [M] Btu/lb
    load: NDArray[np.float64]  # [M, CLASSES] lb/ft²
    ratio: NDArray[np.float64]  # [M, CLASSES] 1/ft
    dynamic: NDArray[np.bool_]  # [M] whether live herbs cure into dead ones


@cache
def burnable_fuels() -> Fuels:
    """The 53 fuel models that burn, sorted by number."""
    rows = _ANDERSON | _SCOTT_BURGAN
    numbers = sorted(rows)
    load, ratio = np.zeros((len(rows), CLASSES)), np.zeros((len(rows), CLASSES))
    for m, number in enumerate(numbers):
        _, _, _, loads, (fine, herbs, wood) = rows[number]
        scale = TONS_PER_ACRE if number > 100 else 1.0
        classes = (DEAD_1H, DEAD_10H, DEAD_100H, LIVE_HERBS, LIVE_WOOD)
        load[m, classes] = np.round(np.array(loads) * scale, 4)
        dead_herbs = herbs if number > 100 else 0
        ratio[m] = (fine, DEAD_10H_RATIO, DEAD_100H_RATIO, dead_herbs, herbs, wood)
    number_array = np.array(numbers, dtype=np.int16)
    return Fuels(
        number_array,
        np.array([rows[n][1] for n in numbers]),
        np.array([rows[n][2] / 100 for n in numbers]),
        np.where(number_array == 106, HEAT_GR6, HEAT),
        load,
        ratio,
        (number_array > 100) & (load[:, LIVE_HERBS] > 0),
    )


def fuel_name(number: int) -> str:
    """The name of a burnable fuel model: words for Anderson's, letters for Scott & Burgan's."""
    return (_ANDERSON | _SCOTT_BURGAN)[number][0]
