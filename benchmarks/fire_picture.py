"""The picture of benchmarks/fire.py: for every kind of case the fire of median agreement, and the worst of all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fire_cases import KINDS, Case
from flashdqn.envs.fuelbreaks.landscape import NON_BURNABLE

#: From … to, color: the groups of fuel models, as a forester's map might show them.
GROUPS = {
    "grass": ((1, 3), (101, 124), "#efe3a8"),
    "shrubs": ((4, 7), (141, 149), "#d3b98a"),
    "timber": ((8, 10), (161, 189), "#b5cfa6"),
    "slash": ((11, 13), (201, 204), "#c9b7c9"),
}
NOTHING, BREAK = "#c4d3e0", "#3b3b3b"
THEIRS, OURS = "#1f4e9e", "#d1341f"


def draw(path: Path, cases: list[Case], theirs: np.ndarray, ours: np.ndarray) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    overlap = (theirs & ours).sum((1, 2)) / (theirs | ours).sum((1, 2))
    chosen = [typical(kind, cases, overlap) for kind in KINDS]
    large = [i for i in range(len(cases)) if theirs[i].sum() >= 100]
    chosen.append(min(large, key=lambda i: overlap[i]))
    figure = Figure(figsize=(12, 7.0), layout="constrained")
    FigureCanvasAgg(figure)
    for panel, i in zip(figure.subplots(2, 4).flat, chosen, strict=True):
        case = cases[i]
        panel.imshow(colors(case), interpolation="nearest")
        outline(panel, theirs[i], THEIRS, 2.6)
        outline(panel, ours[i], OURS, 1.3)
        panel.plot(case.ignition[1], case.ignition[0], marker="*", color="black", ms=8)
        kind = case.kind if i != chosen[-1] else f"worst: {case.kind}"
        panel.set_title(f"{kind}: {overlap[i]:.2f}", fontsize=10, loc="left")
        panel.set_xlabel(f"{case.duration:.0f} min, wind {case.weather.wind_speed:.0f} km/h", fontsize=8)
        panel.set_xticks([])
        panel.set_yticks([])
    patches = [Patch(color=color, label=name) for name, (_, _, color) in GROUPS.items()]
    patches += [Patch(color=NOTHING, label="nothing to burn"), Patch(color=BREAK, label="break")]
    lines = [
        Line2D([], [], color=THEIRS, lw=2.6, label="pyretechnics"),
        Line2D([], [], color=OURS, lw=1.3, label="ours"),
    ]
    figure.legend(handles=lines + patches, loc="outside lower center", ncols=8, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def typical(kind: str, cases: list[Case], overlap: np.ndarray) -> int:
    """The case of median agreement."""
    some = sorted((i for i, case in enumerate(cases) if case.kind == kind), key=lambda i: overlap[i])
    return some[len(some) // 2]


def outline(panel, burned: np.ndarray, color: str, width: float) -> None:
    """The edges between burned cells and others."""
    rows, columns = burned.shape
    padded = np.pad(burned, 1)
    for row, column in np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1]):
        panel.plot([column - 0.5, column + 0.5], [row - 0.5] * 2, color=color, lw=width)
    for row, column in np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1]):
        panel.plot([column - 0.5] * 2, [row - 0.5, row + 0.5], color=color, lw=width)
    panel.set_xlim(-0.5, columns - 0.5)
    panel.set_ylim(rows - 0.5, -0.5)


def colors(case: Case) -> np.ndarray:
    """The fuel of each cell as a color, [H, W, 3]."""
    fuel = case.landscape.fuel_model
    picture = np.ones((*fuel.shape, 3))
    for first, second, color in GROUPS.values():
        for low, high in (first, second):
            picture[(fuel >= low) & (fuel <= high)] = rgb(color)
    picture[np.isin(fuel, list(NON_BURNABLE))] = rgb(NOTHING)
    picture[case.breaks] = rgb(BREAK)
    return picture


def rgb(color: str) -> list[float]:
    return [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
