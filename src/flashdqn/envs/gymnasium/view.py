"""Any Gymnasium environment that can draw itself (`render_mode="rgb_array"`)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from rich.text import Text

from flashdqn.core.drawing.paint import draw_half_blocks, encode_image
from flashdqn.core.drawing.scene import Picture, Scene
from flashdqn.core.drawing.view import Facts, Grid
from flashdqn.core.errors import EnvError
from flashdqn.envs.gymnasium import GymConfig, build_gym_env
from flashdqn.envs.plain_view import enlarge_pixels

WIDE = 600.0
PIXELS = 480  # the largest width of a picture for the browser

#: names of actions where Gymnasium has none, by the beginning of the environment's name
ACTIONS = {
    "CartPole": ("push left", "push right"),
    "Acrobot": ("torque left", "none", "torque right"),
    "MountainCar": ("left", "none", "right"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
    "MinAtar": ("nothing", "left", "up", "right", "down", "fire"),
}


class GymView:
    """Shows the first environment, as it draws itself."""

    heat: Grid | None = None
    ground: Scene = ()
    value_name = "expected return"

    def __init__(self, env: Any, config: GymConfig) -> None:
        """`env` is a `GymVecEnv` whose copies were made with a render mode."""
        self.env, self.title = env, config.id
        inner, numbered = env.vector.env.envs[0].unwrapped, range(env.num_actions)
        names = env.action_names or find_gym_action_names(inner, config, env.num_actions)
        self.actions = names or tuple(f"action {k}" for k in numbered)
        picture = self.picture()
        self.size = (WIDE, WIDE * picture.shape[0] / picture.shape[1])

    def picture(self) -> npt.NDArray[np.uint8]:
        """What the environment draws, [height, width, 3]."""
        name = self.env.name
        try:
            drawn = self.env.vector.calls.guard.call("render", self.env.vector.env.envs[0].render)
            array: npt.NDArray[Any] = np.asarray(drawn)
        except EnvError as error:
            # MinAtar's way to say it.
            if isinstance(error.__cause__, NameError) and error.__cause__.name == "sns":
                raise EnvError(f"{name} needs the package seaborn to draw itself") from None
            raise
        except (TypeError, ValueError):
            raise EnvError(f"{name} must draw [height, width, 3] uint8, and draws no array.") from None
        if array.ndim == 3 and array.shape[2] == 3 and array.size:
            if array.dtype == np.uint8:
                return np.asarray(array, dtype=np.uint8)
            if array.dtype.kind == "f":  # MinAtar draws numbers from 0 to 1
                return np.asarray(np.clip(array, 0, 1) * 255, dtype=np.uint8)
        raise EnvError(
            f"{name} must draw [height, width, 3] uint8, and draws {array.dtype} {list(array.shape)}."
        )

    def scene(self) -> Scene:
        """One picture, as a small file."""
        return (Picture(0, 0, *self.size, encode_image(enlarge_pixels(self.picture()), PIXELS)),)

    def text(self) -> Text:
        """The picture in colored half characters."""
        return draw_half_blocks(Image.fromarray(self.picture()), 72, 28)

    def facts(self) -> Facts:
        """The return so far."""
        return [("score", f"{float(self.env.outcomes[0, 0]):.4g}")]

    def ending(self, outcomes: Mapping[str, float], truncated: bool) -> str:
        """How the game ended, as far as Gymnasium says."""
        return "out of time" if truncated else "ended by its own rules"


def find_gym_action_names(inner: Any, config: GymConfig, count: int) -> tuple[str, ...]:
    """The environment's own action names, or those from its documentation."""
    return read_action_meanings(inner, count) or look_up_action_names(config, count)


def read_action_meanings(inner: Any, count: int) -> tuple[str, ...]:
    """The action names that the environment itself gives; empty if it does not."""
    meanings = getattr(inner, "get_action_meanings", None)
    names = meanings() if callable(meanings) else ()
    return tuple(str(word).lower() for word in names) if len(names) == count else ()


def look_up_action_names(config: GymConfig, count: int) -> tuple[str, ...]:
    """Action names by the environment's name; empty if unknown."""
    if is_atari_frames(config):
        return _read_atari_meanings(config, count)
    known = next((names for start, names in ACTIONS.items() if start in config.id), ())
    return known if len(known) == count else ()


def is_atari_frames(config: GymConfig) -> bool:
    """Whether it is an Atari game with small gray frames, which are then all that can be shown."""
    return config.id.startswith("ALE/") and config.atari.preprocess


def _read_atari_meanings(config: GymConfig, count: int) -> tuple[str, ...]:
    """ALE's action names, read from a separate game."""
    import gymnasium

    try:
        env = gymnasium.make(config.id, full_action_space=config.atari.full_actions)
        names = read_action_meanings(env.unwrapped, count)
        env.close()
    except Exception:  # any error of ALE: names are optional
        return ()
    return names


def make_drawing_env(config: GymConfig) -> Any:
    """Make one copy that can draw itself; every error is an `EnvError`."""
    if not os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # else SDL looks for a screen and prints errors
    kwargs = config.kwargs | {"render_mode": "rgb_array"}
    env = build_gym_env(dataclasses.replace(config, vectorization="sync", kwargs=kwargs), 1)
    if env.vector.env.envs[0].render_mode != "rgb_array":  # type: ignore[attr-defined]
        env.close()
        raise EnvError(f"{config.id} has no render_mode 'rgb_array'")
    return env
