"""The view of fuel breaks: the landscape in relief, how often fires reach each cell, breaks and ignitions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from rich.text import Text

from flashdqn.core.drawing.paint import draw_half_blocks, paint_scene
from flashdqn.core.drawing.palette import blend_colors, color_to_rgb
from flashdqn.core.drawing.scene import CODES, Cells, Disc, Scene
from flashdqn.core.drawing.view import Facts, Grid
from flashdqn.envs.fuelbreaks import FuelBreaks, rules
from flashdqn.envs.fuelbreaks.landscape import NON_BURNABLE, Landscape

WIDE = 600.0
RELIEF, BURNED = 7, 6  # shades of the ground, and of the share of fires that reach a cell
DARK_LAND, LIGHT_LAND = color_to_rgb("#4d6b3c"), color_to_rgb("#c9d6a3")
DARK_ROCK, LIGHT_ROCK = color_to_rgb("#7d8794"), color_to_rgb("#d5dbe2")
FIRE, BREAK = color_to_rgb("#d9481c"), "#1d1d24"


def _rgb_to_hex(color: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)


def _build_palette() -> tuple[str, ...]:
    """Colors of land by relief and fire, then of unburnable land by relief, then of a break."""
    shades = [k / (RELIEF - 1) for k in range(RELIEF)]
    land = [blend_colors(DARK_LAND, LIGHT_LAND, share) for share in shades]
    burning = [
        blend_colors(ground, FIRE, 0.85 * level / (BURNED - 1)) for level in range(BURNED) for ground in land
    ]
    rock = [blend_colors(DARK_ROCK, LIGHT_ROCK, share) for share in shades]
    return (*map(_rgb_to_hex, burning), *map(_rgb_to_hex, rock), BREAK)


PALETTE = _build_palette()
ROCK, BREAK_CODE = RELIEF * BURNED, RELIEF * BURNED + RELIEF


class FuelBreaksView:
    """Shows the first board of an environment."""

    value_name = "percent of the land saved from now on"
    ground: Scene = ()

    def __init__(self, env: FuelBreaks) -> None:
        self.env, size = env, env.config.size
        self.side = WIDE / size
        self.title = f"Fuel breaks on {size}x{size} cells"
        self.size = (WIDE, WIDE)
        self.actions = tuple(f"cell {k // size}, {k % size}" for k in range(size * size))
        self.heat: Grid | None = Grid(0, 0, self.side, size, size * size)

    def scene(self) -> Scene:
        """One code per cell, and a dot where each of the first ten fires starts."""
        size = self.env.config.size
        cells = Cells(0, 0, self.side, size, PALETTE, self.codes())
        starts = dict.fromkeys(cell for cell in self.env.spread.ignition[0].tolist()[:10] if cell >= 0)
        dots = tuple(
            Disc(
                (cell % size + 0.5) * self.side, (cell // size + 0.5) * self.side, self.side * 0.28, "#ffd84d"
            )
            for cell in starts
        )
        return (cells, *dots)

    def codes(self) -> str:
        """The codes of all cells."""
        spread, land = self.env.spread, self.landscape()
        light = shade_relief(land).reshape(-1)
        share = torch.isfinite(spread.arrival[0]).float().mean(0).cpu().numpy()
        level = np.ceil(share * (BURNED - 1)).astype(int)
        rock = np.isin(land.fuel_model, list(NON_BURNABLE)).reshape(-1)
        codes = np.where(rock, ROCK + light, level * RELIEF + light)
        codes = np.where(spread.breaks[0].cpu().numpy(), BREAK_CODE, codes)
        return "".join(CODES[code] for code in codes)

    def landscape(self) -> Landscape:
        """The landscape of this episode."""
        scenes = self.env.scenes
        return scenes.landscapes[int(self.env.spread.table[0]) // len(scenes.weathers)]

    def text(self) -> Text:
        """Two characters per cell if they fit, else half a character."""
        size = self.env.config.size
        columns, rows = (2 * size, size) if size <= 25 else (size, -(-size // 2))
        return draw_half_blocks(paint_scene(self.scene(), self.size, 8 * size), columns, rows)

    def facts(self) -> Facts:
        """What burns on average, what the breaks have saved, and how many are left."""
        state = self.env._state[0].tolist()
        cells = self.env.num_actions * self.env.config.fires
        first, now = state[rules.FIRST], state[rules.NOW]
        return [
            ("saved", f"{100 * (first - now) / cells:.1f}%"),
            ("burns", f"{100 * now / cells:.1f}%"),
            ("at first", f"{100 * first / cells:.1f}%"),
            ("breaks left", str(state[rules.LEFT])),
        ]

    def ending(self, outcomes: Mapping[str, float], truncated: bool) -> str:
        """What the breaks saved."""
        before, after = 100 * outcomes["burned_before"], 100 * outcomes["burned_after"]
        return f"the budget is spent: {after:.1f}% burns instead of {before:.1f}%"


def shade_relief(land: Landscape) -> npt.NDArray[np.int64]:
    """Brightness of the slopes in light from the north-west, as levels [H, W]."""
    south, east = np.gradient(land.elevation.astype(np.float64), land.cell_size)
    light = 0.55 + 0.9 * (south + east) / np.sqrt(1 + south**2 + east**2)
    return np.asarray(np.clip(np.round(light * (RELIEF - 1)), 0, RELIEF - 1), dtype=np.int64)
