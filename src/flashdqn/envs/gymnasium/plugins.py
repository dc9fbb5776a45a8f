"""Packages that bring environments: which one has a name, and how its names are registered."""

from __future__ import annotations

import importlib
import re
from typing import Any, NamedTuple

import gymnasium

from flashdqn.core.errors import EnvError


class Plugin(NamedTuple):
    """A package whose environments have names of a known form."""

    names: str  # a regular expression for their beginning
    module: str  # imported to register them
    package: str  # as pip knows it
    function: str = ""  # to call afterwards


HIGHWAY = "exit|highway|intersection|lane-keeping|merge|parking|racetrack|roundabout|two-way|u-turn"

PLUGINS = (
    Plugin("ALE/", "ale_py", "ale-py"),
    Plugin("MinAtar/", "minatar.gym", "minatar", "register_envs"),
    Plugin("(MiniGrid|BabyAI)-", "minigrid", "minigrid"),
    Plugin(f"({HIGHWAY})(-\\w+)?-v", "highway_env", "highway-env"),
    Plugin("mobile-(small|medium|large)-", "mobile_env", "mobile-env"),
    Plugin("jss-v", "JSSEnv", "JSSEnv"),
    Plugin("popgym-", "popgym", "popgym"),
    Plugin("sumo-rl-v", "sumo_rl", "sumo-rl"),
    Plugin("FlappyBird-v", "flappy_bird_gymnasium", "flappy-bird-gymnasium"),
    Plugin("(forex|stocks)-v", "gym_anytrading", "gym-anytrading"),
    Plugin("tetris_gymnasium/", "tetris_gymnasium.envs", "tetris-gymnasium"),
    Plugin("MiniHack-", "minihack", "minihack"),
    Plugin("NetHack", "nle", "nle"),
    Plugin(
        "(Fetch|HandReach|HandManipulate|AdroitHand|PointMaze|AntMaze|FrankaKitchen)",
        "gymnasium_robotics",
        "gymnasium-robotics",
    ),
    Plugin("gym_pusht/", "gym_pusht", "gym-pusht"),
    Plugin("gym_xarm/", "gym_xarm", "gym-xarm"),
)

#: Modules whose function was called: a second call would register everything again.
_asked: set[str] = set()


def find_plugin(name: str) -> Plugin | None:
    """The package whose environments have such names."""
    return next((plugin for plugin in PLUGINS if re.match(plugin.names, name)), None)


def load_plugin(name: str) -> None:
    """Import the package that has a name, if we know it, so that the name is registered."""
    plugin = None if name in gymnasium.registry else find_plugin(name)
    if plugin is None:
        return
    try:
        loaded = importlib.import_module(plugin.module)
    except ModuleNotFoundError as error:
        package = plugin.package
        if error.name and not plugin.module.startswith(error.name):  # it is there, and lacks another one
            raise EnvError(f"{package} needs the module '{error.name}', which is not installed.") from None
        raise EnvError(f"{name} needs the package {package}: pip install {package}") from None
    if plugin.function:
        getattr(loaded, plugin.function)()


def register_on_request(module: Any, name: str) -> None:
    """Register a module's environments in the two other ways that packages have: a function, or a part of them."""
    register = getattr(module, "register_envs", None)
    if name not in gymnasium.registry and callable(register) and module.__name__ not in _asked:
        _asked.add(module.__name__)
        register()
    if name not in gymnasium.registry:
        inner = f"{module.__name__}.envs"
        try:
            importlib.import_module(inner)
        except ModuleNotFoundError as error:
            if error.name != inner:
                raise
