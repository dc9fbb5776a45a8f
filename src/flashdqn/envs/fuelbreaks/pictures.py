"""Pictures of landscapes: their layers, where fires burn before and after, and the breaks in their order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from flashdqn.core.files import replace_file
from flashdqn.core.signals import Interrupt
from flashdqn.envs.fuelbreaks.fire.spread import BURN, Spread
from flashdqn.envs.fuelbreaks.landscape import NON_BURNABLE, Landscape
from flashdqn.envs.fuelbreaks.scenes import Scenes

#: Groups of fuel models, each with its color: up to which number, name, color.
FUELS = (
    (13, "Anderson", "#b5a642"),
    (90, "", "#ffffff"),
    (91, "urban, roads", "#8c8c8c"),
    (92, "snow", "#e8f1f5"),
    (97, "farmland", "#e3cf8f"),
    (98, "water", "#6fa8c9"),
    (99, "bare ground", "#c9bfb0"),
    (109, "grass", "#dfe3a1"),
    (124, "grass and shrub", "#b9c46f"),
    (149, "shrub", "#8fa05a"),
    (165, "timber, understory", "#5b8a5a"),
    (189, "timber, litter", "#2f6b4a"),
    (204, "slash", "#8a6d4f"),
)

#: Title, unit and color map of each layer.
STYLES = {
    "elevation": ("elevation", "m", "terrain"),
    "slope": ("slope", "degrees", "YlOrBr"),
    "aspect": ("aspect", "degrees", "twilight"),
    "canopy_cover": ("canopy cover", "", "Greens"),
    "canopy_height": ("canopy height", "m", "Greens"),
    "canopy_base_height": ("canopy base height", "m", "Greens"),
    "canopy_bulk_density": ("canopy bulk density", "kg/m³", "Greens"),
}


def draw_layers(landscape: Landscape, path: Path) -> None:
    """All eight layers side by side."""
    figure, axes = make_figure(2, 4, width=13.0, height=6.6)
    panels = axes.flat
    for layer, (title, unit, colors) in STYLES.items():
        panel = next(panels)
        image = panel.imshow(getattr(landscape, layer), cmap=colors, interpolation="nearest")
        panel.set_title(f"{title}, {unit}" if unit else title, fontsize=10, loc="left")
        figure.colorbar(image, ax=panel, shrink=0.8)
    draw_fuel(landscape, last := next(panels))
    last.set_title("fuel model", fontsize=10, loc="left")
    rows, columns = landscape.shape
    figure.suptitle(
        f"{landscape.name}: {rows} x {columns} cells of {landscape.cell_size:g} m",
        x=0.01,
        ha="left",
        fontsize=11,
        parse_math=False,  # the name may hold a $
    )
    save_figure(figure, path)


def draw_fuel(landscape: Landscape, axes: Any, legend: bool = True) -> None:
    """The fuel models in groups, with contour lines."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    group = np.searchsorted([until for until, _, _ in FUELS], landscape.fuel_model)
    axes.imshow(np.array([to_rgb(color) for _, _, color in FUELS])[group], interpolation="nearest")
    if np.ptp(landscape.elevation) > 0:
        axes.contour(landscape.elevation, levels=8, colors="#3a3a3a", linewidths=0.4, alpha=0.6)
    if legend:
        present = [FUELS[k] for k in np.unique(group)]
        patches = [Patch(facecolor=color, label=name) for _, name, color in present]
        axes.legend(  # below the panels, which then keep their size
            handles=patches,
            fontsize=7,
            loc="upper left",
            bbox_to_anchor=(0.0, 0.0),
            ncols=2,
            frameon=False,
            handlelength=1,
        )


def burn_probability(
    scenes: Scenes,
    scene: int,
    breaks: Sequence[int],
    fires: int = 500,
    duration: float = 240.0,
    seed: int = 0,
) -> NDArray[np.float64]:
    """How often each cell burns, over many fires at random cells, [H, W]."""
    spread = Spread(scenes.spread, 1, fires, duration)
    generator = torch.Generator().manual_seed(seed)
    nth = torch.randint(int(scenes.counts[scene]), (fires,), generator=generator)
    spread.table.fill_(scene)
    spread.ignition.copy_(scenes.places[scene].cpu()[nth][None])
    for cell in breaks:
        spread.breaks[0, cell] = True
    spread.command.fill_(BURN)
    spread.launch()
    share = torch.isfinite(spread.arrival[0]).to(torch.float64).mean(0)
    return share.view(scenes.spread.shape).cpu().numpy()


def draw_plan(
    scenes: Scenes,
    scene: int,
    breaks: Sequence[int],
    path: Path,
    title: str = "",
    q: NDArray[Any] | None = None,
    duration: float = 240.0,
) -> None:
    """Fuel, burn probability before and after, the breaks in their order; and the values of the first break."""
    landscape = scenes.landscapes[scene // len(scenes.weathers)]
    before, after = (
        burn_probability(scenes, scene, chosen, duration=duration) for chosen in ([], list(breaks))
    )
    count = 4 if q is None else 5
    figure, axes = make_figure(1, count, width=3.6 * count + 0.6, height=3.9)
    draw_fuel(landscape, axes[0], legend=False)
    axes[0].set_title("fuel", fontsize=10, loc="left")
    top = max(0.01, float(before.max()))
    for panel, share, name in ((axes[1], before, "without breaks"), (axes[2], after, "with breaks")):
        image = panel.imshow(share, cmap="inferno", vmin=0.0, vmax=top, interpolation="nearest")
        panel.set_title(f"{name}: {100 * share.mean():.1f} % burns", fontsize=10, loc="left")
        shade_unburnable(landscape, panel)
    figure.colorbar(image, ax=axes[2], shrink=0.8, label="chance to burn")
    draw_order(landscape, breaks, axes[3])
    if q is not None:
        image = axes[4].imshow(q, cmap="viridis", interpolation="nearest")
        axes[4].set_title("value of the first break", fontsize=10, loc="left")
        figure.colorbar(image, ax=axes[4], shrink=0.8)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, parse_math=False)
    save_figure(figure, path)


def draw_order(landscape: Landscape, breaks: Sequence[int], axes: Any) -> None:
    """The breaks over the fuel, from the first (dark) to the last (light), with numbers where they fit."""
    draw_fuel(landscape, axes, legend=False)
    columns = landscape.shape[1]
    x, y = [cell % columns for cell in breaks], [cell // columns for cell in breaks]
    size = (200.0 / max(landscape.shape)) ** 2
    axes.scatter(
        x, y, c=range(len(breaks)), cmap="plasma", marker="s", s=size, edgecolors="#222", linewidths=0.4
    )
    if len(breaks) <= 60 and max(landscape.shape) <= 30:
        for k, (a, b) in enumerate(zip(x, y, strict=True)):
            axes.text(a, b, str(k + 1), fontsize=5, ha="center", va="center", color="white")
    axes.set_title(f"{len(breaks)} breaks in order", fontsize=10, loc="left")


def shade_unburnable(landscape: Landscape, axes: Any) -> None:
    """Draw gray where nothing burns."""
    shade = np.zeros((*landscape.shape, 4))
    shade[np.isin(landscape.fuel_model, list(NON_BURNABLE))] = (0.55, 0.6, 0.65, 1.0)
    axes.imshow(shade, interpolation="nearest")


def make_figure(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure of panels without ticks."""
    with Interrupt(waits=True) as signals:  # compiled code that is half imported can crash Python in the end
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    signals.stop_if_requested()
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel in axes.flat:
        panel.set_xticks([])
        panel.set_yticks([])
    return figure, axes if rows > 1 else axes[0]


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format that the file's name ends with."""
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=110, format=path.suffix.lstrip(".").lower() or "png")
