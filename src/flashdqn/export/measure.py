"""How good an exported policy is: does it choose the same, does it play as well, how long does it take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from flashdqn.agent.agent import Agent
from flashdqn.agent.onnx import Array
from flashdqn.core.contract import VecEnv, close_env, get_branches
from flashdqn.envs import build_evaluation_env
from flashdqn.export.observations import Observations, make_array_decoder
from flashdqn.export.policy import GreedyPolicy
from flashdqn.learn.heads import ScalarHead
from flashdqn.training.evaluate import Evaluation, evaluate

BATCHES = (1, 256)


class PolicyPlayer(Protocol):
    """Anything that answers as the exported graph does."""

    def answer(self, batch: Array, mask: Any) -> tuple[Array, Array]:
        """Actions [B] and values [B, A]."""


class TorchPlayer:
    """The policy in PyTorch, on the CPU: what the files are compared with."""

    def __init__(self, policy: GreedyPolicy) -> None:
        self.policy = policy

    def answer(self, batch: Array, mask: Any) -> tuple[Array, Array]:
        """Actions [B] and values [B, A]."""
        inputs = [torch.from_numpy(x) for x in (batch, mask) if x is not None]
        with torch.inference_mode():
            action, q = self.policy(*inputs)
        return action.numpy(), q.numpy()


@dataclass(frozen=True)
class Agreement:
    """A file's answers beside PyTorch's, on the same observations."""

    observations: int
    actions: float  # share of observations with the same action
    largest_difference: float  # of action values
    regret: float  # mean loss by the file's actions, in PyTorch's own values
    mean_gap: float  # between the best and the second best legal action: the scale of the difference

    def to_dict(self) -> dict[str, float]:
        """The figures as plain data."""
        return asdict(self)


def measure_agreement(
    file: PolicyPlayer,
    reference: PolicyPlayer,
    observations: Observations,
    chunk: int = 1024,
    branches: tuple[int, ...] = (),
) -> Agreement:
    """Compare a file with the reference on all observations. Where an action has several parts, with as many
    choices as `branches` says, all must be the same; losses and gaps are those of single parts."""
    parts = [observations.part(slice(i, i + chunk)) for i in range(0, len(observations), chunk)]
    answers = []
    for part in parts:
        obs = part.read()
        answers.append((*file.answer(obs, part.mask), *reference.answer(obs, part.mask)))
    action, q, right, values = (np.concatenate(x) for x in zip(*answers, strict=True))
    sizes = branches or (values.shape[1],)
    action, right = action.reshape(len(action), -1), right.reshape(len(right), -1)  # [N, parts]
    legal = values if observations.mask is None else np.where(observations.mask, values, -np.inf)
    ends, rows = np.cumsum(sizes), np.arange(len(action))[:, None]
    best = [np.sort(part, 1)[:, -2:] for part in np.split(legal, ends[:-1], axis=1) if part.shape[1] > 1]
    gaps = np.concatenate([pair[:, 1] - pair[:, 0] for pair in best] or [np.zeros(0)])
    gaps = gaps[np.isfinite(gaps)]  # a single legal action has no second best
    begins = ends - sizes
    return Agreement(
        observations=len(action),
        actions=float((action == right).all(1).mean()),
        largest_difference=float(np.abs(q - values).max()),
        regret=float((values[rows, right + begins] - values[rows, action + begins]).mean()),
        mean_gap=float(gaps.mean()) if len(gaps) else float("nan"),
    )


class Latency(NamedTuple):
    """Seconds of a call: the median, and the fastest, which other programs on the machine disturb least."""

    median: float
    fastest: float


def measure_latencies(
    players: Mapping[str, PolicyPlayer], observations: Observations, rounds: int = 200
) -> dict[str, dict[int, Latency]]:
    """Seconds of a call, by player and batch; the players take turns, so a busy moment hits them all."""
    times: dict[str, dict[int, list[float]]] = {name: {batch: [] for batch in BATCHES} for name in players}
    for batch in BATCHES:
        part = observations.part(slice(0, batch))
        obs = part.read()
        for player in players.values():
            for _ in range(10):  # first calls allocate
                player.answer(obs, part.mask)
        for _ in range(rounds):
            for name, player in players.items():
                start = time.perf_counter()
                player.answer(obs, part.mask)
                times[name][batch].append(time.perf_counter() - start)
    return {
        name: {batch: Latency(statistics.median(taken), min(taken)) for batch, taken in by_batch.items()}
        for name, by_batch in times.items()
    }


def play_games(agent: Agent, player: PolicyPlayer, episodes: int, seed: int) -> Evaluation:
    """Play evaluation games with the file's own actions."""
    env = build_evaluation_env(agent.config.env, episodes, torch.device("cpu"))
    try:
        return evaluate(
            env, make_one_hot_policy(env, player, make_array_decoder(agent.network)), ScalarHead(0.0), seed
        )
    finally:
        close_env(env)


def make_one_hot_policy(
    env: VecEnv, player: PolicyPlayer, decode: Callable[[Array], Array] | None
) -> Callable[[Tensor], Tensor]:
    """The player's action as values that make it the best: 1 for it, 0 for the others."""

    def choose(obs: Tensor) -> Tensor:
        mask = None if env.mask is None else env.mask.numpy()
        action, _ = player.answer(obs.numpy() if decode is None else decode(obs.numpy()), mask)
        sizes = get_branches(env) or (env.num_actions,)
        parts = torch.from_numpy(action).reshape(len(action), -1).unbind(1)
        hot = [F.one_hot(part, size) for part, size in zip(parts, sizes, strict=True)]
        return torch.cat(hot, 1).float()

    return choose
