"""Warm-up: pay once, before the clock starts, for compilation, capture, allocation and first use.

It works on the training's own parts, because graphs hold their addresses. Then it restores everything it changed.
So it leaves no trace: a warm run and a cold one give the same weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor

from flashdqn.config import Config
from flashdqn.core.contract import close_env, is_capturable, is_resumable
from flashdqn.core.errors import BadNumbersError, DivergedError
from flashdqn.envs import build_env, build_evaluation_env
from flashdqn.training.assemble import Parts
from flashdqn.training.engine import Engine, all_group_sizes
from flashdqn.training.evaluate import evaluate

NOTHING_YET = {"transitions": 0, "episodes": 0, "updates": 0}


@contextmanager
def restore_after(config: Config, parts: Parts) -> Iterator[None]:
    """Afterwards the parts are as before their first step, whatever happens inside."""
    weights = clone_tensors(parts.learner.weights())
    state = clone_tensors(parts.state_dict())
    games = parts.env
    if parts.collector.feed is not None:
        parts.collector.rehearses = True  # workers are not started for it
    elif not is_resumable(games):  # games that cannot be restored are not touched: others are played
        parts.collector.env = build_env(config.env, config.envs, games.device)
    try:
        yield
    finally:
        if parts.collector.env is not games:
            close_env(parts.collector.env)
            parts.collector.env = games
        parts.collector.rehearses = False
        parts.load(weights, state, NOTHING_YET, fresh=True)
        parts.metrics.read()
        parts.phases.read()


def exercise_engine(engine: Engine) -> None:
    """Fill a small part of the ring and learn from it, in groups of every size.

    Games that may be slow, or fail, are not played again for every plan that does not change them.
    """
    parts = engine.parts
    if not int(parts.ring.filled) or engine.backend.compiles_recording or is_capturable(parts.collector.env):
        parts.collector.start(seed=0)
        for _ in range(parts.sampler.least_rows):
            engine.collect()
    else:  # what chooses actions may be this plan's own, and must be compiled
        collector = parts.collector
        with torch.no_grad():
            engine.backend.act(collector.obs, collector.mask, collector.eps, collector.luck)
    with suppress(BadNumbersError, DivergedError):  # the run itself reports a loss that is not finite
        for count in all_group_sizes(engine.largest):
            parts.learner.updates = 0  # a copy into the target would split the group
            parts.sampler.draw_again()
            engine.learn(count)
        parts.learner.read_sums()


def warm_up_evaluation(config: Config, parts: Parts) -> None:
    """Run a short evaluation."""
    games = build_evaluation_env(config.env, config.eval.episodes, parts.learner.device)
    evaluate(games, parts.learner.online, parts.learner.head, seed=0, step_limit=2)
    close_env(games)
    if parts.learner.device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def clone_tensors(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A copy of every tensor of a state."""
    return {name: tensor.clone() for name, tensor in state.items()}
