"""The description of a trained agent's policy."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import flashdqn
from flashdqn.agent.agent import Agent
from flashdqn.agent.description import Description
from flashdqn.core.files import read_json_object
from flashdqn.envs import SfcConfig, SnakeConfig
from flashdqn.runs.checkpoint import hash_weights

SNAKE = {"relative": ("straight", "right", "left"), "absolute": ("up", "right", "down", "left")}


def describe_policy(agent: Agent, point: Path, run: Path) -> Description:
    """What a checkpoint's policy is; the score is the run's where the checkpoint is the one that was judged."""
    summary = read_json_object(run / "summary.json")
    judged = summary.get("best_checkpoint") == point.name
    score = summary.get("evaluation", {}).get("mean_score") if judged else None
    config, decoder = agent.config, getattr(agent.network, "decoder", None)
    shape, dtype = agent.obs_spec.shape, str(agent.obs_spec.dtype).removeprefix("torch.")
    if decoder is not None:
        shape, dtype = decoder.shape, "float32"
    return Description(
        task=config.env.task,
        preset=config.preset,
        env=dataclasses.asdict(config.env),
        observation_shape=tuple(shape),
        observation_dtype=dtype,
        actions=name_task_actions(config.env, agent.num_actions),
        first_action=agent.first_action,
        masked=agent.masked,
        head=config.learn.head,
        precision="float32",
        score=score if score is not None and math.isfinite(score) else None,
        steps=int(point.name),
        weights=hash_weights(agent.network.state_dict()),
        version=flashdqn.__version__,
    )


def name_task_actions(env: Any, count: int) -> tuple[str, ...]:
    """What the actions are called; by their numbers where the task has no names for them."""
    if isinstance(env, SnakeConfig):
        return SNAKE[env.actions]
    if isinstance(env, SfcConfig):
        vnfs = [vnf.name for vnf in env.read().vnfs]
        return (*(f"allocate {name}" for name in vnfs), *(f"uninstall {name}" for name in vnfs), "wait")
    return tuple(map(str, range(count)))
