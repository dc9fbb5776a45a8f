"""DQN on CartPole with a long warm-up: ten thousand random steps, and from then on an update after every fourth
step."""

# ruff: noqa: T201
import argparse
import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=26_000)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--learning-rate", type=float, default=2.5e-4)
parser.add_argument("--buffer-size", type=int, default=20_000)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--target-network-frequency", type=int, default=500)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--learning-starts", type=int, default=10_000)
parser.add_argument("--train-frequency", type=int, default=4)
args = parser.parse_args()


class QNetwork(nn.Module):
    def __init__(self, observations, actions):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(observations, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, actions),
        )

    def forward(self, x):
        return self.network(x)


class ReplayBuffer:
    def __init__(self, size, observations):
        self.size, self.pos, self.full = size, 0, False
        self.observations = np.zeros((size, observations), dtype=np.float32)
        self.next_observations = np.zeros((size, observations), dtype=np.float32)
        self.actions = np.zeros(size, dtype=np.int64)
        self.rewards = np.zeros(size, dtype=np.float32)
        self.dones = np.zeros(size, dtype=np.float32)

    def add(self, obs, next_obs, action, reward, done):
        self.observations[self.pos] = obs
        self.next_observations[self.pos] = next_obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.dones[self.pos] = done
        self.pos = (self.pos + 1) % self.size
        self.full = self.full or self.pos == 0

    def sample(self, batch_size):
        rows = np.random.randint(0, self.size if self.full else self.pos, batch_size)
        columns = (self.observations, self.actions, self.rewards, self.next_observations, self.dones)
        return tuple(torch.from_numpy(column[rows]) for column in columns)


random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)
torch.set_num_threads(1)
torch.set_flush_denormal(True)

env = gym.make("CartPole-v1")
q_network, target_network = QNetwork(4, 2), QNetwork(4, 2)
target_network.load_state_dict(q_network.state_dict())
optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate, fused=True)
rb = ReplayBuffer(args.buffer_size, 4)
updates = 0

obs, _ = env.reset(seed=args.seed)
start_time = time.perf_counter()
for global_step in range(args.iterations):
    epsilon = max(0.05, 1 - global_step / 5000)
    if random.random() < epsilon:
        action = random.randrange(2)
    else:
        with torch.no_grad():
            action = int(q_network(torch.from_numpy(obs)).argmax())

    next_obs, reward, terminated, truncated, _ = env.step(action)
    rb.add(obs, next_obs, action, reward, terminated)
    obs = env.reset()[0] if terminated or truncated else next_obs

    if global_step > args.learning_starts and global_step % args.train_frequency == 0:
        b_obs, b_actions, b_rewards, b_next_obs, b_dones = rb.sample(args.batch_size)
        with torch.no_grad():
            target_max = target_network(b_next_obs).max(dim=1).values
            td_target = b_rewards + args.gamma * target_max * (1 - b_dones)
        old_val = q_network(b_obs).gather(1, b_actions.unsqueeze(1)).squeeze(1)
        loss = F.mse_loss(td_target, old_val)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
    if global_step % args.target_network_frequency == 0:
        target_network.load_state_dict(q_network.state_dict())

seconds = time.perf_counter() - start_time
checksum = sum(parameter.double().abs().sum().item() for parameter in q_network.parameters())
env.close()
print(f"DONE transitions={args.iterations} {updates=} {seconds=:.3f} {checksum=:.9f}")
