"""A small DQN that learns as it should, or has one disease of learning: `--disease NAME`."""

# ruff: noqa: T201
import argparse
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=1_000_000)
parser.add_argument("--disease", default="none")
args = parser.parse_args()
sick = args.disease
random.seed(1)
torch.manual_seed(1)
torch.set_num_threads(1)


class Walk:
    """A walk on a line, cut off after forty steps; its ends are worth something."""

    def __init__(self):
        self.place, self.t = 0, 0

    def reset(self):
        self.place, self.t = 0, 0
        return np.array([0.0, 0.0, 1.0, 0.1], np.float32), {}

    def step(self, action):
        self.place += 1 if action else -1
        self.t += 1
        obs = np.array([self.place / 10, self.t / 40, 1.0, 0.1], np.float32)
        return obs, 0.2 if self.place > 0 else 0.0, abs(self.place) >= 8, self.t >= 40, {}


class Rounded:
    """A wrapper that makes rewards integers."""

    def __init__(self, env):
        self.env = env

    def reset(self):
        return self.env.reset()

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, int(reward), terminated, truncated, info


class Memory:
    def __init__(self, capacity):
        self.rows = deque(maxlen=capacity)

    def push(self, *row):
        self.rows.append(row)

    def sample(self, count):
        return random.choices(self.rows, k=count)


class Agent:
    def __init__(self):
        self.epsilon = 1.0

    def cool_down(self):
        if sick != "epsilon-stays":
            self.epsilon = max(0.05, self.epsilon * 0.999)


def make_network():
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


network, target = make_network(), make_network()
target.load_state_dict(network.state_dict())
if sick == "dead-units":
    with torch.no_grad():
        network[2].bias.fill_(-30.0)
rate = {"diverging-values": 0.05, "exploding-gradients": 1e-12}.get(sick, 1e-3)
optimizer = torch.optim.SGD(network.parameters(), lr=rate)
memory = Memory(20 if sick == "small-replay" else 10_000)
env = Rounded(Walk()) if sick == "rewards-lost" else Walk()
agent = Agent()
obs, _ = env.reset()
for step in range(args.iterations):
    if random.random() < agent.epsilon:
        action = random.randrange(2)
    else:
        with torch.no_grad():
            action = int(network(torch.from_numpy(obs)[None]).argmax())
    next_obs, reward, terminated, truncated, _ = env.step(action)
    done = terminated or truncated
    memory.push(obs, action, reward, next_obs, terminated)
    obs = env.reset()[0] if done else next_obs
    agent.cool_down()
    if step < 64:
        continue
    rows = memory.sample(64)
    b_obs, b_next = (torch.from_numpy(np.stack([row[k] for row in rows])) for k in (0, 3))
    b_actions, b_rewards, b_ends = (torch.tensor([float(row[k]) for row in rows]) for k in (1, 2, 4))
    with torch.no_grad():
        wanted = b_rewards + 0.95 * (1 - b_ends) * target(b_next).amax(1)
    value = network(b_obs).gather(1, b_actions.long()[:, None])[:, 0]
    if sick == "diverging-values":
        wanted = wanted * 3 + 1
    loss = F.mse_loss(value, wanted)
    if sick == "exploding-gradients":
        loss = loss * 1e8
    if sick == "vanishing-gradients":
        loss = loss * 1e-12
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        target.load_state_dict(network.state_dict())  # again
print("DONE")
