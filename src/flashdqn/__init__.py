"""flashdqn: a DQN-family trainer that is fast from its first step and can say where every microsecond went.

The names below are imported when they are first used: `flashdqn.load_onnx` acts with NumPy and onnxruntime, and
must not wait for PyTorch.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from flashdqn.as_gymnasium.names import register as _register

if TYPE_CHECKING:
    from flashdqn import algorithms, config, envs, errors, presets, types
    from flashdqn.agent import Agent, load
    from flashdqn.api import make_env, train
    from flashdqn.config import Config
    from flashdqn.errors import CheckpointError, ConfigError, DivergedError, EnvError, FlashDQNError
    from flashdqn.export.player import OnnxAgent, load_onnx
    from flashdqn.train.session import Run

__version__ = "0.1.0.dev0"

__all__ = [
    "Agent",
    "CheckpointError",
    "Config",
    "ConfigError",
    "DivergedError",
    "EnvError",
    "FlashDQNError",
    "OnnxAgent",
    "Run",
    "algorithms",
    "config",
    "envs",
    "errors",
    "load",
    "load_onnx",
    "make_env",
    "presets",
    "train",
    "types",
]

#: where each name lives; a module lives under its own
_HOMES = {
    "Agent": "flashdqn.agent",
    "CheckpointError": "flashdqn.errors",
    "Config": "flashdqn.config",
    "ConfigError": "flashdqn.errors",
    "DivergedError": "flashdqn.errors",
    "EnvError": "flashdqn.errors",
    "FlashDQNError": "flashdqn.errors",
    "OnnxAgent": "flashdqn.export.player",
    "Run": "flashdqn.train.session",
    "load": "flashdqn.agent",
    "load_onnx": "flashdqn.export.player",
    "make_env": "flashdqn.api",
    "train": "flashdqn.api",
}

if not TYPE_CHECKING:  # a type checker must go on refusing names that are not there

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'flashdqn' has no attribute '{name}'")
        home = _HOMES.get(name)
        value = (
            importlib.import_module(f"flashdqn.{name}")
            if home is None
            else getattr(importlib.import_module(home), name)
        )
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


class _Face(ModuleType):
    """`flashdqn.train` is the function: importing the package of that name would put itself in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "train" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
_register()  # flashdqn/Snake-v0 and the others, where Gymnasium is installed
