"""Tianshou's DQN on CartPole with its own trainer: `tianshou_dqn.py ENVIRONMENTS`."""

import sys

import gymnasium
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

number = int(sys.argv[1])
envs = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1") for _ in range(number)])
env = gymnasium.make("CartPole-v1")
policy = DiscreteQLearningPolicy(
    model=Net(state_shape=env.observation_space.shape, action_shape=2, hidden_sizes=[256, 256]),
    action_space=env.action_space,
    observation_space=env.observation_space,
    eps_training=0.1,
)
algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=500)
collector = Collector[CollectStats](
    algorithm, envs, VectorReplayBuffer(50_000, number), exploration_noise=True
)
collector.reset()
collector.collect(n_step=1000, random=True)
algorithm.run_training(
    OffPolicyTrainerParams(
        training_collector=collector,
        max_epochs=100,
        epoch_num_steps=20_000,
        collection_step_num_env_steps=8,
        update_step_num_gradient_steps_per_sample=0.25,
        batch_size=64,
        test_in_training=False,
    )
)
