"""A trained agent, ready to act."""

from __future__ import annotations

from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from flashdqn.config import Config
from flashdqn.envs import build_games
from flashdqn.errors import CheckpointError, EnvError
from flashdqn.learn.bootstraps import masked_argmax
from flashdqn.runtime.device import choose_device
from flashdqn.runtime.seeds import purpose_seed
from flashdqn.train import checkpoint
from flashdqn.train.assemble import build_learner
from flashdqn.train.evaluate import Evaluation, evaluate
from flashdqn.train.run import RunFolder


class Agent:
    """Weights that play: greedy, without exploration."""

    def __init__(self, config: Config, weights: dict[str, Tensor], device: torch.device) -> None:
        self.config, self.device = config, device
        env = build_games(config.env, 1, device)
        learner = build_learner(config, env, device)
        self.obs_spec, self.num_actions = env.obs_spec, env.num_actions
        self.network, self.head = learner.online.requires_grad_(False).eval(), learner.head
        try:
            self.network.load_state_dict(weights)
        except RuntimeError as error:
            raise CheckpointError(f"The weights do not fit the run's configuration: {error}") from None

    def q(self, obs: Any) -> Tensor:
        """Action values, [B, A] (or [A] for a single observation)."""
        batch, single = self._batch(obs)
        q: Tensor = self.head.q(self.network(batch))
        return q[0] if single else q

    @overload
    def act(self, obs: Tensor, mask: Tensor | None = None) -> Tensor: ...
    @overload
    def act(self, obs: Any, mask: Any = None) -> Any: ...
    def act(self, obs: Any, mask: Any = None) -> Any:
        """The best legal action: an int for one observation, a tensor or array of them for a batch."""
        batch, single = self._batch(obs)
        legal = None if mask is None else torch.as_tensor(mask, device=self.device).reshape(len(batch), -1)
        action = masked_argmax(self.head.q(self.network(batch)), legal)
        if single:
            return int(action)
        return action if isinstance(obs, Tensor) else action.cpu().numpy()

    def evaluate(self, episodes: int = 100, seed: int | None = None) -> Evaluation:
        """Play games on boards of one's own."""
        env = build_games(self.config.env, episodes, self.device)
        if seed is None:
            seed = purpose_seed(self.config.seed, "judgement")
        return evaluate(env, self.network, self.head, seed)

    def _batch(self, obs: Any) -> tuple[Tensor, bool]:
        array = obs if isinstance(obs, Tensor) else torch.tensor(np.asarray(obs))
        batch = array.to(self.device, self.obs_spec.dtype)
        single = batch.shape == self.obs_spec.shape
        if single:
            batch = batch[None]
        if batch.shape[1:] != self.obs_spec.shape:
            raise EnvError(
                f"This agent reads observations of shape {list(self.obs_spec.shape)}, alone or in a batch, "
                f"and got {list(array.shape)}."
            )
        return batch, single


def load(run: str | Path, device: str = "auto") -> Agent:
    """The agent of a run folder (its best checkpoint), or of one checkpoint in it."""
    path = Path(run)
    folder = RunFolder.open(path)
    point = folder.play_point(path)
    weights, _, _ = checkpoint.load_or_offer(point, with_state=False, command="flashdqn eval")
    return Agent(folder.config(), weights, choose_device(device))
