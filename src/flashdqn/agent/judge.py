"""Games that an agent plays, to see how well it does: on its own environment or on another one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flashdqn.compute.seeds import purpose_seed
from flashdqn.config import Config
from flashdqn.config.given_env import EnvLike, replace_env
from flashdqn.core.contract import VecEnv, close_env
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.ranges import describe_value
from flashdqn.envs.live_env import is_instance_name
from flashdqn.envs.tasks import build_env, build_evaluation_env
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.heads import Head
from flashdqn.learn.learner import build_learner
from flashdqn.training.evaluate import Evaluation, evaluate
from flashdqn.training.memory import bytes_per_env, check_games_fit

if TYPE_CHECKING:
    from flashdqn.agent.agent import Agent


def judge_agent(agent: Agent, episodes: int, seed: int | None, env: EnvLike | None) -> Evaluation:
    """Play `episodes` games; an instance plays them one after the other, everything else all at once."""
    if not isinstance(episodes, int) or episodes < 1:
        raise ConfigError(
            f"episodes must be a whole number of at least 1, and is {describe_value(episodes)}."
        )
    seed = purpose_seed(agent.config.seed, "judgement") if seed is None else seed
    config = dataclasses.replace(agent.config, env=replace_env(agent.config.env, env))
    if is_instance_name(getattr(config.env, "id", "")):
        games = build_env(config.env, 1, agent.device)
        return _play_and_close(agent, config, games, [seed + number for number in range(episodes)])
    one = build_evaluation_env(config.env, 1, agent.device)
    check_games_fit(bytes_per_env(config.env, one), episodes, agent.device)
    if episodes > 1:
        _close_whole(one)
        one = build_evaluation_env(config.env, episodes, agent.device)
    return _play_and_close(agent, config, one, [seed])


def _play_and_close(agent: Agent, config: Config, games: VecEnv, seeds: Sequence[int]) -> Evaluation:
    try:
        network, head = fit_network(agent, config, games)
        results = [evaluate(games, network, head, seed) for seed in seeds]
    except BaseException:
        close_env(games)
        raise
    _close_whole(games)
    return results[0] if len(results) == 1 else join_evaluations(results)


def _close_whole(env: VecEnv) -> None:
    if problem := close_env(env):
        raise problem


def fit_network(agent: Agent, config: Config, games: VecEnv) -> tuple[Net, Head]:
    """The agent's network for these games: its own, or one of another size that takes the same weights."""
    if config.env == agent.config.env:
        return agent.network, agent.head
    refusal = EnvError(
        f"This agent reads observations of shape {list(agent.obs_spec.shape)} and has {agent.num_actions} actions; "
        f"its network does not fit {games.name}, with {list(games.obs_spec.shape)} and {games.num_actions}."
    )
    same_form = len(games.obs_spec.shape) == len(agent.obs_spec.shape)
    if not same_form or games.obs_spec.dtype != agent.obs_spec.dtype:
        raise refusal
    learner = build_learner(config, games, agent.device)
    network = learner.online.requires_grad_(False).eval()
    try:
        network.load_state_dict(agent.network.state_dict())
    except RuntimeError:
        raise refusal from None
    return network, learner.head


def join_evaluations(results: Sequence[Evaluation]) -> Evaluation:
    """Evaluations of one game each as one evaluation."""
    ended = [one for one in results if one.episodes]
    if not ended:
        return dataclasses.replace(results[0], unfinished=len(results))
    count, scores = len(ended), [one.mean_score for one in ended]
    mean = math.fsum(scores) / count
    spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / max(1, count - 1))
    return Evaluation(
        episodes=count,
        unfinished=len(results) - count,
        mean_score=mean,
        score_error=spread / math.sqrt(count),
        mean_return=math.fsum(one.mean_return for one in ended) / count,
        mean_length=math.fsum(one.mean_length for one in ended) / count,
        outcomes={name: math.fsum(one.outcomes[name] for one in ended) / count for name in ended[0].outcomes},
    )
