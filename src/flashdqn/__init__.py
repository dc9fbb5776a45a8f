"""flashdqn: a DQN-family trainer that is fast from its first step and can say where every microsecond went.

The names below are imported when they are first used: `flashdqn.load_onnx` acts with NumPy and onnxruntime, and
must not wait for PyTorch.
"""

from __future__ import annotations

from flashdqn.core.safe_path import drop_working_folder as _drop_working_folder

_drop_working_folder()  # before anything else is imported, even from the standard library

import importlib  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from flashdqn.as_gymnasium.names import register_gymnasium_envs as _register  # noqa: E402
from flashdqn.core.signals import runs_as_command as _runs_as_command  # noqa: E402

if TYPE_CHECKING:
    from flashdqn import config, envs
    from flashdqn.agent.agent import Agent, load
    from flashdqn.agent.onnx import OnnxAgent, load_onnx
    from flashdqn.api import evaluate, make_env, train
    from flashdqn.api.run import Run
    from flashdqn.config import Config, presets
    from flashdqn.core import errors, types
    from flashdqn.core.errors import (
        CallbackError,
        CheckpointError,
        ConfigError,
        DivergedError,
        EnvError,
        FlashDQNError,
    )
    from flashdqn.learn import algorithms
    from flashdqn.training.callbacks import CheckpointEvent, EvaluationEvent, ReportEvent
    from flashdqn.training.evaluate import Evaluation

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "CallbackError",
    "CheckpointError",
    "CheckpointEvent",
    "Config",
    "ConfigError",
    "DivergedError",
    "EnvError",
    "Evaluation",
    "EvaluationEvent",
    "FlashDQNError",
    "OnnxAgent",
    "ReportEvent",
    "Run",
    "algorithms",
    "config",
    "envs",
    "errors",
    "evaluate",
    "load",
    "load_onnx",
    "make_env",
    "presets",
    "train",
    "types",
]

#: Modules that are attributes of this package, and where they live.
_MODULES = {
    "algorithms": "flashdqn.learn.algorithms",
    "config": "flashdqn.config",
    "envs": "flashdqn.envs",
    "errors": "flashdqn.core.errors",
    "presets": "flashdqn.config.presets",
    "types": "flashdqn.core.types",
}

#: The module of each other name.
_HOMES = {
    "Agent": "flashdqn.agent.agent",
    "CallbackError": "flashdqn.core.errors",
    "CheckpointError": "flashdqn.core.errors",
    "CheckpointEvent": "flashdqn.training.callbacks",
    "Config": "flashdqn.config",
    "ConfigError": "flashdqn.core.errors",
    "DivergedError": "flashdqn.core.errors",
    "EnvError": "flashdqn.core.errors",
    "Evaluation": "flashdqn.training.evaluate",
    "EvaluationEvent": "flashdqn.training.callbacks",
    "FlashDQNError": "flashdqn.core.errors",
    "OnnxAgent": "flashdqn.agent.onnx",
    "ReportEvent": "flashdqn.training.callbacks",
    "Run": "flashdqn.api.run",
    "evaluate": "flashdqn.api",
    "load": "flashdqn.agent.agent",
    "load_onnx": "flashdqn.agent.onnx",
    "make_env": "flashdqn.api",
    "train": "flashdqn.api",
}

if not TYPE_CHECKING:  # a type checker must still refuse names that do not exist

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            value = importlib.import_module(_MODULES[name])
        elif name in _HOMES:
            value = getattr(importlib.import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module 'flashdqn' has no attribute '{name}'")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


if not _runs_as_command():  # which does it later, when it can answer signals
    _register()  # flashdqn/Snake-v0 and the others, where Gymnasium is installed
