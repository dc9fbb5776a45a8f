"""Compile the kernels of the games for CUDA in a helper process, while this one loads PyTorch and its compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashdqn.compute.compilation import CUDA_MARK
from flashdqn.compute.compile_ahead import CallJob
from flashdqn.config import Config
from flashdqn.config.settings import apply_settings, to_dict
from flashdqn.envs.tasks import find_task

#: Boards to make on a GPU: a single one would have arrays of another layout, and so kernels for other types.
BOARDS = 2
#: Demonstrations on more boards are played by the GPU, which is faster then.
MOST_HOST_BOARDS = 1024


def plan_games(config: Config) -> list[CallJob]:
    """The work of helpers for a training on a GPU; nothing if the games have no kernels, as those of a user."""
    task = find_task(config.env.task)
    names = task.kernels(config.env)
    if not names:
        return []
    given = {"task": task.name, "settings": to_dict(config.env), "expert": config.demos.source}
    on_gpu = given | {"device": "cuda", "boards": BOARDS}
    jobs = [CallJob(__name__, "compile_games", on_gpu, tuple(name + CUDA_MARK for name in names))]
    if wants_host(config):
        on_cpu = given | {"device": "cpu", "boards": config.envs}
        jobs.append(CallJob(__name__, "compile_games", on_cpu, names))
    return jobs


def wants_host(config: Config) -> bool:
    """Whether demonstrations for a GPU are played on the CPU, as far as the settings say."""
    few = config.demos.asked_for and config.envs <= MOST_HOST_BOARDS
    return few and bool(find_task(config.env.task).kernels(config.env))


def compile_games(task: str, settings: Mapping[str, Any], expert: str, device: str, boards: int) -> None:
    """Make some boards, and an expert that plays them: that compiles all that they need."""
    import torch

    from flashdqn.core.contract import is_resumable

    entry = find_task(task)
    config = entry.smallest(apply_settings(entry.config(), settings))
    env = entry.make(config, boards, torch.device(device), False)
    if is_resumable(env):
        env.load_state_dict(env.state_dict())
    if expert in entry.experts:
        entry.experts[expert](getattr(env, "env", env), 0)
