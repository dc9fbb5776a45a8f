"""The description of a trained agent's policy."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import flashdqn
from flashdqn.agent.agent import Agent
from flashdqn.agent.description import Description
from flashdqn.core.files import read_json_object
from flashdqn.envs.tasks import find_task
from flashdqn.runs.checkpoint import hash_weights


def describe_policy(agent: Agent, point: Path, run: Path) -> Description:
    """The description of a checkpoint's policy. It has the run's score if the run was judged by this checkpoint."""
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
        actions=find_task(config.env.task).name_actions(config.env, agent.num_actions),
        first_action=agent.first_action,
        masked=agent.masked,
        head=config.learn.head,
        precision="float32",
        score=score if score is not None and math.isfinite(score) else None,
        steps=int(point.name),
        weights=hash_weights(agent.network.state_dict()),
        version=flashdqn.__version__,
    )
