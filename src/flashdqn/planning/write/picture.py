"""plan.png: the breaks on the ground, and the chance to burn before and after, to print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flashdqn.core.text import clean_line
from flashdqn.envs.fuelbreaks.landscape import Landscape
from flashdqn.envs.fuelbreaks.pictures import FUELS, make_figure, save_figure
from flashdqn.planning.report import PlanReport
from flashdqn.planning.worth import find_most_valuable
from flashdqn.planning.write.paint import (
    CHANCE_COLORS,
    ORDER_COLORS,
    choose_shrink,
    paint_breaks,
    paint_chance,
)
from flashdqn.planning.write.scale_bar import choose_scale_bar
from flashdqn.planning.write.words import describe_headline


def draw_map(report: PlanReport, path: Path) -> None:
    """Three maps side by side."""
    landscape, judgement = report.problem.landscape, report.judgement
    rows, columns = landscape.shape
    figure, axes = make_figure(1, 3, width=15.0, height=1.3 + 4.2 * min(2.0, max(0.4, rows / columns)))
    shrink = choose_shrink(landscape.shape)
    before, after = judgement.before.burn_probability, report.after.burn_probability
    top = max(0.01, float(before.max()))
    maps = (
        ("Breaks in their order", paint_breaks(landscape, report.written_plan.order, shrink)),
        ("Chance to burn, without breaks", paint_chance(before, landscape, top, shrink)),
        ("Chance to burn, with the breaks", paint_chance(after, landscape, top, shrink)),
    )
    for panel, (title, pixels) in zip(axes, maps, strict=True):
        panel.imshow(pixels, interpolation="nearest", extent=(0, columns, rows, 0))
        panel.set_title(title, fontsize=11, loc="left")
        draw_scale_bar(panel, landscape)
        draw_north_arrow(panel)
    draw_numbers(report, axes[0])
    draw_fuel_legend(landscape, figure)
    add_color_bar(figure, axes[0], ORDER_COLORS, 1, max(2, len(report.written_plan.order)), "order")
    add_color_bar(figure, axes[2], CHANCE_COLORS, 0, top, "share of the fires")
    title = f"{clean_line(landscape.name, 80)}: {describe_headline(report)}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, parse_math=False, wrap=True)
    save_figure(figure, path)


def draw_scale_bar(axes: Any, landscape: Landscape) -> None:
    """A bar of a round length, at the lower left."""
    rows, columns = landscape.shape
    cells, words = choose_scale_bar(columns, landscape.cell_size)
    x, y = 0.04 * columns, 0.95 * rows
    for color, width in (("black", 5.0), ("white", 2.5)):
        axes.plot([x, x + cells], [y, y], color=color, linewidth=width, solid_capstyle="butt")
    axes.annotate(
        words, (x, y), xytext=(0, 5), textcoords="offset points", fontsize=9, color="white", **_outline()
    )


def draw_north_arrow(axes: Any) -> None:
    """North is up: an arrow at the upper right."""
    axes.annotate(
        "N",
        xy=(0.95, 0.98),
        xytext=(0.95, 0.87),
        xycoords="axes fraction",
        ha="center",
        fontsize=10,
        color="white",
        arrowprops={"arrowstyle": "-|>", "color": "white", "linewidth": 2.0, **_outline()},
        **_outline(),
    )


def _outline() -> dict[str, Any]:
    from matplotlib.patheffects import withStroke

    return {"path_effects": [withStroke(linewidth=3.0, foreground="#222222")]}


def draw_numbers(report: PlanReport, axes: Any) -> None:
    """The ranks of the most valuable breaks, beside them."""
    columns = report.problem.landscape.shape[1]
    for group in find_most_valuable(report.groups):
        row, column = divmod(int(group.cells[0]), columns)
        axes.annotate(
            str(group.rank),
            (column + 0.5, row + 0.5),
            xytext=(6, 6),
            textcoords="offset points",
            fontsize=9,
            fontweight="bold",
            color="white",
            **_outline(),
        )


def draw_fuel_legend(landscape: Landscape, figure: Any) -> None:
    """The groups of fuels that are there, below the maps."""
    from matplotlib.patches import Patch

    groups = np.unique(np.searchsorted([until for until, _, _ in FUELS], landscape.fuel_model))
    patches = [Patch(facecolor=FUELS[k][2], label=FUELS[k][1], edgecolor="#666666") for k in groups]
    figure.legend(
        handles=patches, fontsize=9, loc="outside lower left", ncols=13, frameon=False, handlelength=1
    )


def add_color_bar(figure: Any, axes: Any, colors: str, low: float, high: float, words: str) -> None:
    """A color bar at the right of a map."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    figure.colorbar(ScalarMappable(Normalize(low, high), colors), ax=axes, shrink=0.75, pad=0.02, label=words)
