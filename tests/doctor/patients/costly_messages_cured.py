"""Environments that take a few microseconds a step, in the process that trains."""

# ruff: noqa: T201, B905
import argparse
import time

import numpy as np
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=60000, help="steps of all environments")
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--envs", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)
torch.set_flush_denormal(True)


class Walk:
    """A walk on a line."""

    def __init__(self, seed):
        self.seed, self.place, self.t = seed, 0, 0

    def reset(self):
        self.place, self.t = 0, 0
        return self.observe()

    def observe(self):
        return np.array([self.place / 10, self.t / 50, self.seed / 10, 1.0], np.float32)

    def step(self, action):
        self.place += 1 if action else -1
        self.t += 1
        done = abs(self.place) >= 10 or self.t >= 50
        reward = float(self.place >= 10)
        return self.observe(), reward, done, {}


class WorkerEnvs:
    """The same environments in this process."""

    def __init__(self, number):
        self.envs = [Walk(seed) for seed in range(number)]

    def reset(self):
        return np.stack([env.reset() for env in self.envs])

    def step(self, actions):
        answers = [env.step(action) for env, action in zip(self.envs, actions)]
        observations, rewards, dones, infos = zip(*answers)
        observations = [
            env.reset() if done else obs for env, obs, done in zip(self.envs, observations, dones)
        ]
        return np.stack(observations), np.array(rewards, np.float32), np.array(dones), infos

    def close(self):
        pass


network = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, fused=True)
envs, updates = WorkerEnvs(args.envs), 0
obs = envs.reset()
start_time = time.perf_counter()
for step in range(args.iterations):
    with torch.no_grad():
        actions = network(torch.from_numpy(obs)).argmax(1).tolist()
    next_obs, rewards, dones, _ = envs.step(actions)
    if step % 16 == 0:
        loss = ((network(torch.from_numpy(obs)).amax(1) - torch.from_numpy(rewards)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
    obs = next_obs

seconds = time.perf_counter() - start_time
envs.close()
checksum = sum(parameter.double().abs().sum().item() for parameter in network.parameters())
print(f"DONE transitions={args.iterations * args.envs} {updates=} {seconds=:.3f} {checksum=:.9f}")
