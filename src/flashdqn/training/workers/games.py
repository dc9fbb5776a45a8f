"""Environments that play in workers, as the rest of a training sees them: what they are, but not their steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from flashdqn.compute.core_count import cores
from flashdqn.config import Config
from flashdqn.core.contract import VecEnv, close_env, get_branches, get_cause_names, get_decoder
from flashdqn.core.types import Step
from flashdqn.envs import build_env, build_evaluation_env
from flashdqn.envs.task import Collectors
from flashdqn.training.workers.transport import Transport


@dataclass
class CollectRecord:
    """What the workers have done since the run began, over all its sessions."""

    workers: int
    sessions: int = 0
    admitted: int = 0  # transitions
    lag: int = 0  # their sum, in gradient steps
    most_lag: int = 0
    discarded: int = 0  # transitions: too old, or of a half episode
    moved: int = 0  # how often an environment went on in another column of the ring
    leads: int = 0  # slots of the ring that hold only a frame because of this
    replaced: dict[int, int] = field(default_factory=dict)  # by worker

    def to_json(self, max_lag: int) -> dict[str, Any]:
        """For the summary."""
        return {
            "workers": self.workers,
            "mean_lag": round(self.lag / self.admitted, 2) if self.admitted else None,
            "most_lag": self.most_lag,
            "max_lag": max_lag,
            "discarded_transitions": self.discarded,
            "moved_streams": self.moved,
            "frame_slots": self.leads,
            "replaced_workers": sum(self.replaced.values()),
            "replaced": {f"worker {worker}": count for worker, count in sorted(self.replaced.items())},
            "reproducible": False,
        }

    def to_tensor(self) -> Tensor:
        """For a checkpoint."""
        totals = [
            self.sessions,
            self.admitted,
            self.lag,
            self.most_lag,
            self.discarded,
            self.moved,
            self.leads,
        ]
        return torch.tensor(totals + [self.replaced.get(worker, 0) for worker in range(self.workers)])

    def load(self, saved: Tensor) -> None:
        """Go on from a checkpoint."""
        totals = [int(number) for number in saved]
        self.sessions, self.admitted, self.lag, self.most_lag, self.discarded, self.moved, self.leads = (
            totals[:7]
        )
        self.replaced = {worker: count for worker, count in enumerate(totals[7:]) if count}


class RemoteGames:
    """A `VecEnv` that nobody steps: its workers send what they have played. It closes them."""

    resumable = False

    def __init__(self, like: VecEnv, num_envs: int, collectors: Collectors) -> None:
        """`like`: one environment of the same kind, which stays the caller's."""
        self.name, self.num_envs, self.num_actions = like.name, num_envs, like.num_actions
        self.obs_spec, self.device = like.obs_spec, like.device
        self.outcome_names, self.cause_names = like.outcome_names, get_cause_names(like)
        self.decoder, self.branches = get_decoder(like), get_branches(like)
        self.collectors = collectors
        self.workers = min(collectors.workers or cores(), num_envs)
        self.record = CollectRecord(self.workers)
        self.transport: Transport | None = None
        masked, size = like.mask is not None, (num_envs, like.num_actions)
        self.mask = torch.ones(size, dtype=torch.bool, device=like.device) if masked else None
        self.outcomes = torch.zeros((num_envs, len(like.outcome_names)), device=like.device)

    def reset(self, seed: int) -> Tensor:
        """Nothing to start: zeros in the place of observations."""
        spec = self.obs_spec
        return torch.zeros((self.num_envs, *spec.shape), dtype=spec.dtype, device=self.device)

    def step(self, action: Tensor) -> Step:
        """A step in which nothing happens. A warm-up rehearses with such steps: it must not play a slow game."""
        never = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        return Step(self.reset(0), never.float(), never, never.clone(), self.mask)

    def state_dict(self) -> dict[str, Tensor]:
        """The totals; games in workers cannot be saved."""
        return {"record": self.record.to_tensor()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on counting."""
        self.record.load(state["record"])

    def close(self) -> None:
        """End the workers."""
        if self.transport is not None:
            self.transport.close()


def build_games(config: Config, device: torch.device) -> VecEnv:
    """The environments of a training, here or in workers that collect by themselves."""
    collectors = config.env.collectors
    if collectors is None:
        return build_env(config.env, config.envs, device)
    like = build_evaluation_env(config.env, 1, device)
    try:
        return RemoteGames(like, config.envs, collectors)
    finally:
        close_env(like)
