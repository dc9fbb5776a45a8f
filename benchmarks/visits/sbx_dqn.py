"""SBX's DQN (JAX) on CartPole: `sbx_dqn.py ENVIRONMENTS`."""

import sys

from sbx import DQN
from stable_baselines3.common.env_util import make_vec_env

env = make_vec_env("CartPole-v1", n_envs=int(sys.argv[1]), seed=0)
model = DQN("MlpPolicy", env, learning_starts=1000, policy_kwargs={"net_arch": [256, 256]}, seed=0)
model.learn(total_timesteps=1_000_000)
