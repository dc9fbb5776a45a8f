"""A view for tasks without their own: what the agent sees, as numbers or planes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from rich.text import Text
from torch import Tensor

from flashdqn.core.contract import VecEnv
from flashdqn.core.drawing.paint import draw_half_blocks, encode_image, paint_scene
from flashdqn.core.drawing.scene import CODES, Cells, Label, Picture, Rect, Scene, Shape
from flashdqn.core.drawing.view import Facts, Grid

WIDE, ROW, GAP = 480.0, 18.0, 12.0
MOST = 48  # the most numbers that are listed
LARGEST = 32  # the longest side of a plane that is drawn cell by cell; larger planes are pictures
#: Dark to light; the first is the color of an empty cell, and so of an empty plane.
SHADES = tuple(
    f"#{round(24 + 205 * k / 15):02x}{round(40 + 170 * k / 15):02x}{round(60 + 100 * k / 15):02x}"
    for k in range(16)
)


class PlainView:
    """The observation of the first environment: a bar for each number, a small board for each plane."""

    heat: Grid | None = None
    ground: Scene = ()
    value_name = "expected return"

    def __init__(
        self,
        env: VecEnv,
        obs: Callable[[], Tensor],
        title: str,
        actions: tuple[str, ...] = (),
        shape: tuple[int, ...] = (),
    ) -> None:
        """`obs` returns the current observations, [1, …], or a part of them: then `shape` is the part's."""
        self.env, self.title, self.obs, self.shape = env, title, obs, shape or env.obs_spec.shape
        self.actions = actions or tuple(f"action {k}" for k in range(env.num_actions))
        shape = self.shape
        self.planes = len(shape) == 3
        self.image = self.planes and min(shape[1:]) > LARGEST
        self.size = self._size()

    def scene(self) -> Scene:
        """A picture, planes side by side, or bars under each other."""
        seen = self.obs()[0].float().cpu().numpy()
        if self.image:
            return (Picture(0, 0, *self.size, encode_image(enlarge_pixels(planes_to_image(seen)), 480)),)
        return self._boards(seen) if self.planes else self._bars(seen.reshape(-1))

    def text(self) -> Text:
        """The observation for a terminal."""
        if self.planes:
            return draw_half_blocks(paint_scene(self.scene(), self.size, 2 * int(self.size[0])), 64, 24)
        seen = self.obs()[0].float().cpu().numpy().reshape(-1)[:MOST]
        return Text("\n".join(f"{self._name(k):<16} {value:>10.3f}" for k, value in enumerate(seen)))

    def facts(self) -> Facts:
        """The score so far, if the task keeps it up to date."""
        return []

    def ending(self, outcomes: Mapping[str, float], truncated: bool) -> str:
        """How the game ended, as far as every task can tell."""
        return "cut off" if truncated else "ended"

    def _size(self) -> tuple[float, float]:
        shape = self.shape
        if self.image:
            return WIDE, WIDE * shape[1] / shape[2]
        if not self.planes:
            return WIDE, ROW * min(MOST, int(np.prod(shape))) + GAP
        columns = self._columns()
        return WIDE, -(-shape[0] // columns) * (self._side() * shape[1] + ROW + GAP)

    def _columns(self) -> int:
        return min(3, self.shape[0])

    def _side(self) -> float:
        columns = self._columns()
        return (WIDE - GAP * (columns - 1)) / columns / self.shape[2]

    def _boards(self, seen: npt.NDArray[np.float32]) -> Scene:
        side, columns = self._side(), self._columns()
        _, high, wide = seen.shape
        largest = max(1e-6, float(seen.max()))
        shapes: list[Shape] = []
        for k, plane in enumerate(seen):
            row, column = divmod(k, columns)
            x, y = column * (wide * side + GAP), row * (high * side + ROW + GAP)
            levels = np.clip(np.ceil(plane.reshape(-1) / largest * 15), 0, 15).astype(int)
            shapes.append(Label(x, y + ROW / 2, f"plane {k}", 12, "soft"))
            shapes.append(Cells(x, y + ROW, side, wide, SHADES, "".join(CODES[level] for level in levels)))
        return tuple(shapes)

    def _bars(self, seen: npt.NDArray[np.float32]) -> Scene:
        middle, reach = WIDE * 0.62, WIDE * 0.24
        largest = max(1e-6, float(np.abs(seen).max()))
        shapes: list[Shape] = [Rect(middle - 0.5, 0, 1, self.size[1], "faint")]
        for k, value in enumerate(seen[:MOST]):
            y = GAP / 2 + k * ROW
            long = float(value) / largest * reach
            shapes.append(Label(0, y + ROW / 2, self._name(k), 12, "soft"))
            shapes.append(Rect(min(middle, middle + long), y + 3, abs(long), ROW - 6, "accent", 2))
            shapes.append(Label(WIDE, y + ROW / 2, f"{value:.3f}", 12, "ink", "right"))
        return tuple(shapes)

    def _name(self, k: int) -> str:
        return f"observation {k}"


def planes_to_image(seen: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Planes of pixels [C, H, W] as one picture: three are red, green and blue; a stack shows its newest."""
    top = 255.0 if seen.max() > 1.0 else 1.0
    chosen = seen if len(seen) == 3 else np.repeat(seen[-1:], 3, axis=0)
    return np.asarray(np.clip(chosen.transpose(1, 2, 0) / top * 255, 0, 255), dtype=np.uint8)


def enlarge_pixels(array: npt.NDArray[np.uint8], least: int = 160) -> npt.NDArray[np.uint8]:
    """Enlarge a picture of few pixels (MinAtar: 10x10) with sharp squares, which a browser would blur."""
    factor = -(-least // array.shape[1])
    return array if factor == 1 else array.repeat(factor, axis=0).repeat(factor, axis=1)
