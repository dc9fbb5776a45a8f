"""A trained agent, ready to act."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from flashdqn.agent.onnx import OnnxAgent, load_onnx
from flashdqn.core.errors import CheckpointError, ConfigError, EnvError

# PyTorch is imported only where it is needed: `Agent.from_onnx` does not need it.
if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import Tensor

    from flashdqn.config import Config
    from flashdqn.config.given_env import EnvLike
    from flashdqn.core.contract import VecEnv
    from flashdqn.core.user_code import Permission
    from flashdqn.training.evaluate import Evaluation


class Agent:
    """Weights that play: greedy, without exploration."""

    def __init__(
        self, config: Config, weights: dict[str, Tensor], device: torch.device, steps: int = 0
    ) -> None:
        """`steps`: transitions that the weights were trained on."""
        from flashdqn.compute.seeds import make_generator
        from flashdqn.core.contract import close_env, get_branches
        from flashdqn.core.text import clean_line
        from flashdqn.envs.tasks import build_evaluation_env, find_task
        from flashdqn.learn.learner import build_learner

        self.config, self.device, self.steps = config, device, steps
        env = build_evaluation_env(config.env, 1, device)
        learner = build_learner(keep_flat_torso(config, weights, env), env, device)
        self.obs_spec, self.num_actions = env.obs_spec, env.num_actions
        #: the number of choices in each part of an action; empty where an action is a single choice
        self.branches = get_branches(env)
        self.masked = env.mask is not None
        #: the number that an outside environment gives to our action 0
        self.first_action: int = getattr(env, "first_action", 0)
        reader = find_task(config.env.task).reader  # reads what the user's own environment returns
        self._reader = reader(env) if reader is not None else None
        #: of the actions, or of the choices in all parts of an action
        self.action_names: tuple[str, ...] = getattr(env, "action_names", ()) or find_task(
            config.env.task
        ).name_actions(config.env, env.num_actions)
        self._luck = make_generator(config.seed, "acting")
        close_env(env)
        self.network, self.head = learner.online.requires_grad_(False).eval(), learner.head
        try:
            self.network.load_state_dict(weights)
        except RuntimeError as error:
            reason = clean_line(str(error).partition("\n")[2] or str(error), 300)
            raise CheckpointError(f"The weights do not fit the run's configuration: {reason}") from None
        check_weights(self.network, weights)

    @staticmethod
    def from_onnx(file: str | Path, threads: int = 1) -> OnnxAgent:
        """As `flashdqn.load_onnx`: the agent in a file that `flashdqn export` wrote. It acts without PyTorch."""
        return load_onnx(file, threads)

    def q(self, obs: Any) -> Tensor:
        """Action values, [B, A] (or [A] for a single observation): `agent.q(obs).max()`.

        `obs` is what `act` takes; actions are counted from 0. Where an action has several parts, these are the
        values of the choices in each part, one part after the other.
        """
        batch, single, _, _ = self._batch(obs)
        q: Tensor = self.head.q(self.network(batch))
        return q[0] if single else q

    @overload
    def act(self, obs: Tensor, mask: Tensor | None = None, eps: float = 0.0) -> Tensor: ...
    @overload
    def act(self, obs: Any, mask: Any = None, eps: float = 0.0) -> Any: ...
    def act(self, obs: Any, mask: Any = None, eps: float = 0.0) -> Any:
        """The best legal action: an int for one observation, a tensor or array of them for a batch.

        With probability `eps` it is a random legal one: `agent.act(obs, eps=0.05)`.

        For a Gymnasium environment `obs` may be what its own `reset` and `step` return, for example a Dict or a
        picture, and the action is one of its own. Legal actions in `obs["action_mask"]` are used; pass those in
        `info` as `mask`. A tensor is read as our vectorized environments give it, with actions from 0.
        An action of several parts (MultiDiscrete, MultiBinary) is an array; for a tensor, the number of the
        combination (`core/branching.py`).
        """
        import torch

        from flashdqn.core.ops import choose_epsilon_greedy, masked_argmax
        from flashdqn.learn.branching import get_head_branches

        batch, single, own_mask, to_own_actions = self._batch(obs)
        legal = self._read_mask(own_mask if mask is None else mask, len(batch))
        q, branches = self.head.q(self.network(batch)), get_head_branches(self.head)
        if eps:
            check_eps(eps)
            luck = torch.rand((1 + (len(self.branches) or 1), len(batch)), generator=self._luck).to(
                self.device
            )
            action = choose_epsilon_greedy(q, legal, torch.full_like(luck[0], eps), luck, branches)
        else:
            action = masked_argmax(q, legal, branches)
        if isinstance(obs, torch.Tensor):
            return int(action) if single else action
        own = to_own_actions(action.cpu().numpy())
        if single:
            return int(own[0]) if own.ndim == 1 else own[0]
        return own

    def evaluate(
        self, episodes: int = 100, seed: int | None = None, env: EnvLike | None = None
    ) -> Evaluation:
        """Play `episodes` games without exploring, each on its own board: `agent.evaluate(20).mean_score`.

        `env` is another environment to play on, in any form that `flashdqn.train` takes, or some of its settings:
        `agent.evaluate(env={"size": 15})`. The network must fit it.
        """
        from flashdqn.agent.judge import judge_agent

        return judge_agent(self, episodes, seed, env)

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Write the agent into one file, which `flashdqn.load` reads: `agent.save("agent.zip")`.

        It holds the weights (safetensors) and the settings (JSON); no code and no environment.
        """
        from flashdqn.agent.agent_file import write_agent_file

        return write_agent_file(self, Path(file))

    def _read_mask(self, mask: Any, count: int) -> Tensor | None:
        """Legal actions, [B, A] bool; with branches, it may have one array for each of them."""
        import torch

        if mask is None:
            return None
        sizes = self.branches or (self.num_actions,)
        if self.branches and isinstance(mask, tuple | list) and len(mask) == len(sizes):
            mask = np.concatenate([np.asarray(part).reshape(count, -1) for part in mask], axis=1)
        legal = torch.as_tensor(mask, device=self.device) != 0
        if legal.numel() != count * self.num_actions:
            shape = [self.num_actions] if count == 1 else [count, self.num_actions]
            raise EnvError(f"A mask must have the shape {shape} here, and has {list(legal.shape)}.")
        legal = legal.reshape(count, self.num_actions)
        if not all(bool(part.any(1).all()) for part in torch.split(legal, list(sizes), 1)):
            raise EnvError("A mask must leave at least one legal action for every observation.")
        return legal

    def _split_actions(self, action: Any) -> Any:
        """The action numbers, or the choices in all parts, [B, D], if actions have several."""
        if not self.branches:
            return action
        return np.stack(np.unravel_index(action, self.branches), axis=1)

    def _batch(self, obs: Any) -> tuple[Tensor, bool, Any, Callable[[Any], Any]]:
        """The network's input, whether it was one observation, the mask in it, and what turns our action numbers
        into those of the environment that it comes from."""
        import torch

        if self._reader is not None and not isinstance(obs, torch.Tensor):
            read = self._reader(obs)
            if read is not None:
                return torch.from_numpy(read.obs).to(self.device), read.single, read.mask, read.to_own_actions
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
        return batch, single, None, self._split_actions


def keep_flat_torso(config: Config, weights: dict[str, Tensor], env: VecEnv) -> Config:
    """The configuration that fits the weights: before the parts of an observation had networks of their own, `auto`
    was an MLP that reads the same numbers."""
    from flashdqn.config.settings import apply_settings
    from flashdqn.core.contract import get_decoder, get_parts

    flat = config.network.torso == "auto" and "torso.layers.0.weight" in weights
    return (
        apply_settings(config, {"network.torso": "mlp"}) if flat and get_parts(get_decoder(env)) else config
    )


def check_weights(network: torch.nn.Module, weights: dict[str, Tensor]) -> None:
    """Refuse weights of another type, which would be rounded, and NaN: they play, but not what was trained."""
    for name, tensor in network.state_dict().items():
        given = weights[name]
        if given.dtype != tensor.dtype:
            raise CheckpointError(
                f"The weights are damaged: {name} must be {tensor.dtype}, and is {given.dtype}."
            )
        if given.is_floating_point() and not bool(given.isfinite().all()):
            raise CheckpointError(f"The weights are damaged: {name} holds NaN or infinity.")


def check_eps(eps: float) -> None:
    """Refuse what is not a probability."""
    if not 0 <= eps <= 1:
        raise ConfigError(f"eps must lie between 0 and 1, and is {eps}.")


def load(
    run: str | os.PathLike[str], device: str = "auto", trust: bool = False, env: EnvLike | None = None
) -> Agent:
    """The agent of a run folder (its best checkpoint), of one checkpoint in it, or of a file that `Agent.save`
    wrote: `flashdqn.load("agent.zip")`.

    A run that names code as module:Name (a network, a game, a variant) is loaded only with `trust=True`: that
    code is imported, and runs with your rights. `env` takes the place of the run's environment, in any form that
    `flashdqn.train` takes; a run of a local class, a function or an instance needs it.
    """
    from flashdqn.core.user_code import Permission

    return load_agent(Path(run), device, Permission(everything=trust), env)


def load_agent(
    path: Path,
    device: str,
    permission: Permission,
    env: EnvLike | None = None,
    change: Callable[[Config], Config] | None = None,
) -> Agent:
    """As `load`; the run may import only what `permission` allows. `change` may give its environment other
    settings: it comes after the permission, because it makes the environment."""
    from flashdqn.agent.agent_file import read_agent_file
    from flashdqn.compute.device import choose_device
    from flashdqn.config.given_env import find_env_change, permit_given_env
    from flashdqn.runs import checkpoint
    from flashdqn.runs.folder import RunFolder

    given, permission = find_env_change(env), permit_given_env(permission, env)
    if path.is_file():
        config, weights, steps = read_agent_file(path, permission, given)
        return Agent(config if change is None else change(config), weights, choose_device(device), steps)
    folder = RunFolder.open(path)
    config = folder.config(permission, given)
    point = folder.play_point(path)
    weights, _, counters = checkpoint.load_or_suggest_older(point, with_state=False, command="flashdqn eval")
    return Agent(
        config if change is None else change(config), weights, choose_device(device), counters["transitions"]
    )
