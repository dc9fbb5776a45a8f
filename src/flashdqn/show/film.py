"""Games as files: a picture of one moment, or a GIF of the whole game."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from flashdqn.agent.agent import Agent
from flashdqn.core.drawing.paint import paint_scene
from flashdqn.core.drawing.view import View
from flashdqn.core.errors import ConfigError
from flashdqn.core.files import write_output
from flashdqn.envs.stage import GameStage
from flashdqn.show.play import GameTurn, play_turns
from flashdqn.show.recording import Thinning

#: A GIF with more frames would load too slowly: only every second, third, … is kept.
MOST_FRAMES = 600
#: A game that goes on for longer is cut off.
MOST_STEPS = 20_000


def record_film_turns(
    agent: Agent, stage: GameStage, seed: int, frame: int | None
) -> tuple[list[GameTurn], GameTurn]:
    """The moments of a game that fit into a film, and the step that was asked for, or the last. Only these are
    drawn."""
    thinning, chosen = Thinning(MOST_FRAMES, MOST_FRAMES), None
    wanted = lambda step: step == frame or thinning.wants(step)  # noqa: E731
    for turn in play_turns(agent, stage, seed, MOST_STEPS, wanted):
        thinning.add(turn)
        if turn.step == frame:
            chosen = turn
    last = thinning.turns[-1]
    if frame is not None and chosen is None:
        raise ConfigError(f"The game has the steps 0 to {last.step}, and --frame asks for {frame}.")
    return thinning.turns, chosen or last


def choose_film_width(view: View) -> int:
    """Enough pixels to read the text, but not more than fit on a page."""
    return round(min(640.0, max(320.0, view.size[0])))


def draw_turn(view: View, turn: GameTurn, width: int = 480) -> Image.Image:
    """One moment, `width` pixels wide."""
    return paint_scene((*view.ground, *turn.scene), view.size, width)


def save_picture(view: View, turn: GameTurn, path: Path, width: int = 480) -> None:
    """Write one moment as a PNG."""
    write_image(draw_turn(view, turn, width), path, "PNG", optimize=True)


def thin_turns(turns: Sequence[GameTurn], most: int = MOST_FRAMES) -> list[GameTurn]:
    """At most `most` turns, evenly over the game, and always the last."""
    stride = -(-len(turns) // most)
    return [*turns[:-1:stride], turns[-1]]


def save_film(view: View, turns: Sequence[GameTurn], path: Path, fps: float = 15.0, width: int = 320) -> int:
    """Write a game as a GIF that rests on its last frame; returns the number of frames."""
    images = [draw_turn(view, turn, width) for turn in thin_turns(turns)]
    # All frames share one palette: then a GIF stores only what has changed.
    colors = common_palette(images)
    frames = [image.quantize(palette=colors, dither=Image.Dither.NONE) for image in images]
    # GIF counts in hundredths of a second, and browsers slow down what is faster than 50 frames a second
    milliseconds = max(20, round(100 / fps) * 10)
    pause = [milliseconds] * (len(frames) - 1) + [1500]
    write_image(
        frames[0], path, "GIF", save_all=True, append_images=frames[1:], duration=pause, loop=0, optimize=True
    )
    return len(frames)


def save_strip(view: View, turns: Sequence[GameTurn], path: Path, count: int = 4, width: int = 200) -> None:
    """Write moments of one game side by side, from the first to the last."""
    chosen = [turns[round(k * (len(turns) - 1) / (count - 1))] for k in range(count)]
    images = [draw_turn(view, turn, width) for turn in chosen]
    gap, height = width // 20, images[0].height
    strip = Image.new("RGB", (count * width + (count - 1) * gap, height), "white")
    for k, image in enumerate(images):
        strip.paste(image, (k * (width + gap), 0))
    write_image(strip, path, "PNG", optimize=True)


def write_image(image: Image.Image, path: Path, kind: str, **options: Any) -> None:
    """Write an image to a file that the user has named."""
    data = io.BytesIO()
    image.save(data, kind, **options)
    write_output(path, data.getvalue())


def common_palette(images: Sequence[Image.Image], samples: int = 8) -> Image.Image:
    """A palette for all frames, from a sample of them."""
    chosen = [images[round(k * (len(images) - 1) / max(1, samples - 1))] for k in range(samples)]
    width, height = chosen[0].size
    together = Image.new("RGB", (width, height * samples))
    for k, image in enumerate(chosen):
        together.paste(image, (0, k * height))
    return together.quantize(64, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
