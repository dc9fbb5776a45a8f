"""A trained agent, ready to act."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from flashdqn.agent.onnx import OnnxAgent, load_onnx
from flashdqn.core.errors import CheckpointError, EnvError

# PyTorch is imported only where it is needed: `Agent.from_onnx` does not need it.
if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor

    from flashdqn.config import Config
    from flashdqn.core.user_code import Permission
    from flashdqn.training.evaluate import Evaluation


class Agent:
    """Weights that play: greedy, without exploration."""

    def __init__(self, config: Config, weights: dict[str, Tensor], device: torch.device) -> None:
        from flashdqn.core.contract import close_env
        from flashdqn.envs.tasks import build_evaluation_env, find_task
        from flashdqn.learn.learner import build_learner
        from flashdqn.training.memory import bytes_per_env

        self.config, self.device = config, device
        env = build_evaluation_env(config.env, 1, device)
        self._bytes_per_game = bytes_per_env(config, env)
        learner = build_learner(config, env, device)
        self.obs_spec, self.num_actions = env.obs_spec, env.num_actions
        self.masked = env.mask is not None
        #: the number that an outside environment gives to our action 0
        self.first_action: int = getattr(env, "first_action", 0)
        reader = find_task(config.env.task).reader  # reads what the user's own environment returns
        self._reader = reader(env) if reader is not None else None
        close_env(env)
        self.network, self.head = learner.online.requires_grad_(False).eval(), learner.head
        try:
            self.network.load_state_dict(weights)
        except RuntimeError as error:
            raise CheckpointError(f"The weights do not fit the run's configuration: {error}") from None

    @staticmethod
    def from_onnx(file: str | Path, threads: int = 1) -> OnnxAgent:
        """As `flashdqn.load_onnx`: the agent in a file that `flashdqn export` wrote. It acts without PyTorch."""
        return load_onnx(file, threads)

    def q(self, obs: Any) -> Tensor:
        """Action values, [B, A] (or [A] for a single observation)."""
        batch, single, _, _ = self._batch(obs)
        q: Tensor = self.head.q(self.network(batch))
        return q[0] if single else q

    @overload
    def act(self, obs: Tensor, mask: Tensor | None = None) -> Tensor: ...
    @overload
    def act(self, obs: Any, mask: Any = None) -> Any: ...
    def act(self, obs: Any, mask: Any = None) -> Any:
        """The best legal action: an int for one observation, a tensor or array of them for a batch.

        For a Gymnasium environment `obs` may be what its own `reset` and `step` return, for example a Dict or a
        picture, and the action is one of its own. Legal actions in `obs["action_mask"]` are used; pass those in
        `info` as `mask`. A tensor is read as our vectorized environments give it, with actions from 0.
        """
        import torch

        from flashdqn.core.ops import masked_argmax

        batch, single, own_mask, first = self._batch(obs)
        mask = own_mask if mask is None else mask
        legal = (
            None if mask is None else torch.as_tensor(mask, device=self.device).reshape(len(batch), -1) != 0
        )
        action = masked_argmax(self.head.q(self.network(batch)), legal) + first
        if single:
            return int(action)
        return action if isinstance(obs, torch.Tensor) else action.cpu().numpy()

    def evaluate(self, episodes: int = 100, seed: int | None = None) -> Evaluation:
        """Play `episodes` games, each on its own board."""
        from flashdqn.compute.seeds import purpose_seed
        from flashdqn.core.contract import close_env
        from flashdqn.envs import build_evaluation_env
        from flashdqn.training.evaluate import evaluate
        from flashdqn.training.memory import check_games_fit

        check_games_fit(self._bytes_per_game, episodes, self.device)
        env = build_evaluation_env(self.config.env, episodes, self.device)
        if seed is None:
            seed = purpose_seed(self.config.seed, "judgement")
        try:
            result = evaluate(env, self.network, self.head, seed)
        except BaseException:
            close_env(env)
            raise
        if problem := close_env(env):
            raise problem
        return result

    def _batch(self, obs: Any) -> tuple[Tensor, bool, Any, int]:
        """The network's input, whether it was one observation, the mask in it, and the first action's number."""
        import torch

        if self._reader is not None and not isinstance(obs, torch.Tensor):
            read = self._reader(obs)
            if read is not None:
                return torch.from_numpy(read.obs).to(self.device), read.single, read.mask, self.first_action
        if isinstance(obs, dict | tuple):
            raise EnvError("This agent was trained on other observations: their parts or shapes differ.")
        array = obs if isinstance(obs, torch.Tensor) else torch.tensor(np.asarray(obs))
        batch = array.to(self.device, self.obs_spec.dtype)
        single = batch.shape == self.obs_spec.shape
        if single:
            batch = batch[None]
        if batch.shape[1:] != self.obs_spec.shape:
            raise EnvError(
                f"This agent reads observations of shape {list(self.obs_spec.shape)}, alone or in a batch, "
                f"and got {list(array.shape)}."
            )
        return batch, single, None, 0


def load(run: str | Path, device: str = "auto", trust: bool = False) -> Agent:
    """The agent of a run folder (its best checkpoint), or of one checkpoint in it.

    A run that names code as module:Name (a network, a game, a variant) is loaded only with `trust=True`: that
    code is imported, and runs with your rights.
    """
    from flashdqn.core.user_code import Permission

    return load_agent(Path(run), device, Permission(everything=trust))


def load_agent(
    path: Path, device: str, permission: Permission, change: Callable[[Config], Config] | None = None
) -> Agent:
    """As `load`; the run may import only what `permission` allows. `change` may give its environment other
    settings."""
    from flashdqn.compute.device import choose_device
    from flashdqn.runs import checkpoint
    from flashdqn.runs.folder import RunFolder

    folder = RunFolder.open(path)
    config = folder.config(permission)
    point = folder.play_point(path)
    weights, _, _ = checkpoint.load_or_suggest_older(point, with_state=False, command="flashdqn eval")
    return Agent(config if change is None else change(config), weights, choose_device(device))
