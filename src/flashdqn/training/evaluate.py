"""Evaluation: games with ε = 0, one per board. So short games are not counted more often than long ones."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flashdqn.core.contract import VecEnv, make_branches
from flashdqn.core.errors import EnvError
from flashdqn.core.ops import has_legal_action, masked_argmax
from flashdqn.core.signals import StopRequestedError
from flashdqn.learn.bootstraps import Net
from flashdqn.learn.heads import Head
from flashdqn.networks import mean_mode
from flashdqn.runs.columns import SCORE
from flashdqn.training.eval_share import FEWEST_GAMES, PATIENCE

#: Asking the device whether all games are over stops it: ask once in this many steps.
ASK_EVERY = 32
#: A longer game is cut off and counted separately: an agent may walk in circles forever.
STEP_LIMIT = 50_000


@dataclass(frozen=True)
class Evaluation:
    """Means over the games that ended, NaN if none ended; the task names the `outcomes`."""

    episodes: int
    unfinished: int  # games still going on when the step limit cut them off
    mean_score: float
    score_error: float
    mean_return: float
    mean_length: float
    outcomes: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        return dict(vars(self))

    def to_json(self) -> dict[str, Any]:
        """The same for JSON, which does not support NaN."""
        flat = {name: nan_to_none(value) for name, value in vars(self).items() if name != "outcomes"}
        return flat | {"outcomes": {name: nan_to_none(value) for name, value in self.outcomes.items()}}


class PlayedGames(NamedTuple):
    """What the first game of every board came to; only the rows that have ended count."""

    returns: Tensor  # [N]
    lengths: Tensor  # [N]
    outcomes: Tensor  # [N, len(outcome_names)]
    ended: Tensor  # [N] bool


def nan_to_none(value: float) -> float | None:
    """None in place of NaN."""
    return None if math.isnan(value) else value


def evaluate(
    env: VecEnv,
    online: Net,
    head: Head,
    seed: int,
    step_limit: int = STEP_LIMIT,
    stop: Callable[[], bool] = bool,
    patience: float = math.inf,
) -> Evaluation:
    """Play the first game of every board to its end, without noise in the network. If `stop` says so, the games are
    cut off by StopRequestedError. After `patience` seconds, games that go on are cut off as by the step limit, as
    soon as `FEWEST_GAMES` have ended; after `PATIENCE` times that, even if fewer have."""
    games = play_games(env, online, head, seed, step_limit, stop, patience)
    return summarize_games(games, env.outcome_names)


def play_games(
    env: VecEnv,
    online: Net,
    head: Head,
    seed: int,
    step_limit: int = STEP_LIMIT,
    stop: Callable[[], bool] = bool,
    patience: float = math.inf,
) -> PlayedGames:
    """Play as `evaluate` does, and return the games one by one."""
    with mean_mode(online):
        return _play_games(env, online, head, seed, step_limit, stop, patience)


@torch.no_grad()
def _play_games(
    env: VecEnv,
    online: Net,
    head: Head,
    seed: int,
    step_limit: int,
    stop: Callable[[], bool],
    patience: float,
) -> PlayedGames:
    began = time.perf_counter()
    obs, mask, branches = env.reset(seed), env.mask, make_branches(env)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
    returns = torch.zeros(env.num_envs, device=env.device)
    lengths = torch.zeros(env.num_envs, device=env.device)
    outcomes = torch.zeros((env.num_envs, len(env.outcome_names)), device=env.device)
    stuck = torch.zeros_like(running)  # boards that had to play without a legal action
    for count in range(1, step_limit + 1):
        if stop():
            raise StopRequestedError
        if mask is not None:
            stuck |= running & ~has_legal_action(mask, branches)
        step = env.step(masked_argmax(head.q(online(obs)), mask, branches))
        obs, mask = step.obs, step.mask
        returns += step.reward * running
        lengths += running
        ended = running & (step.terminated | step.truncated)
        outcomes = torch.where(ended[:, None], env.outcomes, outcomes)
        running &= ~ended
        if count % ASK_EVERY == 0:
            left = int((running & ~stuck).sum())
            few = env.num_envs - left < min(FEWEST_GAMES, env.num_envs)
            if left == 0 or time.perf_counter() - began > patience * (PATIENCE if few else 1.0):
                break
    if stuck.any():
        raise EnvError(
            f"{env.name}: `mask` must leave at least one legal action unless the episode ended, but "
            f"{int(stuck.sum())} of {env.num_envs} evaluation games had none. Terminate an episode where "
            "nothing can be done."
        )
    return PlayedGames(returns, lengths, outcomes, ~running)


def summarize_games(games: PlayedGames, outcome_names: tuple[str, ...]) -> Evaluation:
    """The means over the games that have ended."""
    returns, lengths, outcomes = (
        column[games.ended] for column in (games.returns, games.lengths, games.outcomes)
    )
    means = dict(zip(outcome_names, outcomes.mean(0).tolist(), strict=True))
    scores = outcomes[:, outcome_names.index(SCORE.name)] if SCORE.name in means else returns
    spread = float(scores.std()) if len(scores) > 1 else 0.0
    means.pop(SCORE.name, None)
    return Evaluation(
        episodes=len(scores),
        unfinished=int((~games.ended).sum()),
        mean_score=float(scores.mean()),
        score_error=spread / max(1, len(scores)) ** 0.5,
        mean_return=float(returns.mean()),
        mean_length=float(lengths.mean()),
        outcomes=means,
    )
