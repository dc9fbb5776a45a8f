"""Stable-Baselines3's DQN on CartPole, as its manual has it: `sb3.py ENVIRONMENTS`."""

import sys

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

torch.set_num_threads(1)
number = int(sys.argv[1])
env = make_vec_env("CartPole-v1", n_envs=number, seed=0)
model = DQN("MlpPolicy", env, learning_starts=1000, policy_kwargs={"net_arch": [256, 256]}, seed=0)
model.learn(total_timesteps=1_000_000)
