"""Tianshou's double DQN or its Rainbow, with a native batched environment behind its vector interface.

Its collector and its algorithm are called by hand, two gradient steps after each step of eight environments. Its
own trainer looks through the whole buffer for NaN after every collection (`buffer.hasnull()`), which takes longer
the fuller it is; called by hand, Tianshou is spared that.

Rainbow: C51 with double targets, noisy layers everywhere, dueling streams with a hidden layer each, 3 steps, and
prioritized replay: the same layers as ours.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import tianshou
from tianshou.algorithm import DQN, RainbowDQN
from tianshou.algorithm.algorithm_base import policy_within_training_step
from tianshou.algorithm.modelfree.c51 import C51Policy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import NoisyLinear
from tianshou.utils.torch_utils import torch_train_mode

from peers import task
from peers.snake_env import ACTION_SPACE, OBSERVATION_SPACE, Boards


class Spaces(gymnasium.Env[Any, Any]):
    """What Tianshou asks of a single environment, when it does not play it."""

    action_space, observation_space = ACTION_SPACE, OBSERVATION_SPACE


class SnakeVenv(DummyVectorEnv):
    """All boards in one kernel call; the collector itself resets those that ended."""

    def __init__(self, num_envs: int) -> None:
        super().__init__([Spaces] * num_envs)
        self.boards = Boards(num_envs)

    def reset(self, env_id: Any = None, **kwargs: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = np.arange(self.env_num) if env_id is None else np.atleast_1d(env_id)
        return self.boards.restart(rows), np.array([{} for _ in rows])

    def step(self, action: Any, id: Any = None) -> Any:
        assert len(action) == self.env_num
        return *self.boards.step(np.asarray(action)), np.array([{} for _ in range(self.env_num)])


def make_algorithm(device: str) -> DQN:
    net = Net(state_shape=OBSERVATION_SPACE.shape, action_shape=3, hidden_sizes=task.HIDDEN).to(device)
    policy = DiscreteQLearningPolicy(
        model=net,
        action_space=ACTION_SPACE,
        observation_space=OBSERVATION_SPACE,
        eps_training=task.EPS,
    )
    return DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=task.LR),
        gamma=task.GAMMA,
        target_update_freq=task.TARGET_EVERY,
        is_double=True,
    ).to(device)


def make_rainbow(device: str) -> RainbowDQN:
    """The noise explores, not ε."""

    def linear(inputs: int, outputs: int) -> NoisyLinear:
        return NoisyLinear(inputs, outputs, task.NOISE)

    *shared, own = task.HIDDEN
    stream = {"hidden_sizes": (own,), "linear_layer": linear}
    net = Net(
        state_shape=OBSERVATION_SPACE.shape, action_shape=3, hidden_sizes=shared, softmax=True,
        num_atoms=task.ATOMS, dueling_param=(stream, stream), linear_layer=linear,
    ).to(device)  # fmt: skip
    policy = C51Policy(
        model=net,
        action_space=ACTION_SPACE,
        observation_space=OBSERVATION_SPACE,
        num_atoms=task.ATOMS,
        v_min=task.V_MIN,
        v_max=task.V_MAX,
    )
    return RainbowDQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=task.LR),
        gamma=task.GAMMA,
        n_step_return_horizon=task.N_STEP,
        target_update_freq=task.TARGET_EVERY,
    ).to(device)


def main() -> None:
    asked = task.arguments()
    window = task.Window(asked.seconds)
    rainbow = asked.work == "rainbow"
    algorithm = make_rainbow(asked.device) if rainbow else make_algorithm(asked.device)
    buffer = VectorReplayBuffer(task.REPLAY, asked.envs)
    if rainbow:
        buffer = PrioritizedVectorReplayBuffer(task.REPLAY, asked.envs, alpha=task.ALPHA, beta=task.BETA)
    collector = Collector(
        algorithm, SnakeVenv(asked.envs), buffer, exploration_noise=True, raise_on_nan_in_buffer=False
    )
    collector.reset()
    steps = collector.collect(n_step=task.STARTS, random=True).n_collected_steps
    updates, begun = 0, steps
    with policy_within_training_step(algorithm.policy), torch_train_mode(algorithm.policy):
        while not window.over(steps, updates):
            steps += collector.collect(n_step=asked.envs).n_collected_steps
            while updates < (steps - begun) // task.EVERY:
                algorithm.update(sample_size=task.BATCH, buffer=buffer)
                updates += 1
    about = {"envs": asked.envs, "version": tianshou.__version__}
    task.report(window.result(), algorithm="Rainbow" if rainbow else "double DQN", **about)


if __name__ == "__main__":
    main()
