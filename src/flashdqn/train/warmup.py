"""Warm-up: pay once, before the clock starts, for compilation, allocation and first use.

It works on parts of its own, made from the same configuration and thrown away, so it leaves no trace: a
warmed run and a cold one give the same weights.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress

import torch

from flashdqn.config import Config
from flashdqn.envs import build_env, build_games
from flashdqn.envs.contract import close
from flashdqn.errors import DivergedError
from flashdqn.train.assemble import assemble
from flashdqn.train.evaluate import evaluate

UPDATES = 3


def warm_up(config: Config, device: torch.device) -> None:
    """Run every piece of the loop a few times. A loss that is not finite is for the run itself to report."""
    rows = config.pqn.rollout if config.learn.method == "pqn" else config.replay.n_step + 3
    small = dataclasses.replace(config.replay, capacity=rows * config.envs)
    env = build_env(config.env, config.envs, device)
    parts = assemble(dataclasses.replace(config, replay=small), env)
    parts.collector.start(seed=0)
    for _ in range(rows):
        parts.collector.collect()
        parts.sampler.appended()
    with suppress(DivergedError):
        for batch in parts.sampler.batches(UPDATES, config.update_size):
            parts.sampler.update(batch.index, parts.learner.update(batch))
        parts.learner.read_sums()
    games = build_games(config.env, config.eval.episodes, device)
    evaluate(games, parts.learner.online, parts.learner.head, seed=0, step_limit=2)
    close(env)
    close(games)
    parts.metrics.read()
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
