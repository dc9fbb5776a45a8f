"""The checkpoints of a run as players, from the untrained network to the last."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from flashdqn.agent.agent import Agent
from flashdqn.compute.device import choose_device
from flashdqn.config import Config
from flashdqn.core.contract import close_env
from flashdqn.core.errors import CheckpointError
from flashdqn.core.user_code import NO_PERMISSION, Permission
from flashdqn.envs import build_evaluation_env
from flashdqn.learn.learner import build_learner
from flashdqn.runs import checkpoint
from flashdqn.runs.best import find_best_checkpoint, read_scores
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.tables import read_evaluations

UNTRAINED = "untrained"


@dataclass(frozen=True)
class CheckpointPlayer:
    """A moment of the run whose weights can play."""

    name: str  # the checkpoint's folder, or "untrained"
    step: int
    score: float | None = None  # its score in evaluation, if it was evaluated
    best: bool = False


class Players:
    """Every checkpoint of a run, and the agents that play with them; the last few agents are kept."""

    KEPT = 4

    def __init__(
        self,
        run: Path,
        device: str = "auto",
        permission: Permission = NO_PERMISSION,
        change: Callable[[Config], Config] = lambda config: config,
    ) -> None:
        """`change` gives the environment other settings than in training."""
        self.folder = RunFolder.open(run)
        self.config = change(self.folder.config(permission))
        self.device = choose_device(device)
        self.first = self.folder.play_point(run).name
        self._agents: dict[str, Agent] = {}

    def lineup(self) -> list[CheckpointPlayer]:
        """All players, oldest first; a run that still trains has more of them each time."""
        best = find_best_checkpoint(self.folder.checkpoints)
        scores = {row.step: row.mean_score for row in read_evaluations(self.folder.path)}
        scores |= read_scores(self.folder.checkpoints)  # which nobody has edited
        players = [CheckpointPlayer(UNTRAINED, 0)]
        for path in self._paths().values():
            step = int(path.name)
            score = scores.get(step, math.nan)
            known = score if math.isfinite(score) else None
            players.append(
                CheckpointPlayer(path.name, step, known, best is not None and best[0].name == path.name)
            )
        return players

    def agent(self, name: str) -> Agent:
        """The agent of a player; unknown names are refused."""
        if name not in self._agents:
            weights = self._untrained() if name == UNTRAINED else self._weights(name)
            while len(self._agents) >= self.KEPT:
                del self._agents[next(iter(self._agents))]
            self._agents[name] = Agent(self.config, weights, self.device)
        return self._agents[name]

    def _paths(self) -> dict[str, Path]:
        """The checkpoints by name; links to other folders do not belong to this run."""
        inside = self.folder.checkpoints.resolve()
        paths = checkpoint.list_checkpoints(self.folder.checkpoints)
        return {
            path.name: path for path in paths if path.name.isdigit() and path.resolve() == inside / path.name
        }

    def _weights(self, name: str) -> dict[str, torch.Tensor]:
        path = self._paths().get(name) if re.fullmatch(r"\d{1,20}", name) else None
        if path is None:
            raise CheckpointError(f"{self.folder.path} has no checkpoint '{name}'.")
        return checkpoint.load_or_suggest_older(path, with_state=False, command="flashdqn watch")[0]

    def _untrained(self) -> dict[str, torch.Tensor]:
        """The initial weights for the run's seed."""
        env = build_evaluation_env(self.config.env, 1, torch.device("cpu"))
        try:
            return build_learner(self.config, env, torch.device("cpu")).weights()
        finally:
            close_env(env)
