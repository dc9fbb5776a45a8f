"""DQN on CartPole after PyTorch's tutorial, with a line printed now and then."""

# ruff: noqa: T201
import argparse
import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

BATCH_SIZE = 64
GAMMA = 0.99
CAPACITY = 20_000

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=30_000)
arguments = parser.parse_args()

random.seed(5)
torch.manual_seed(5)
torch.set_num_threads(1)
torch.set_flush_denormal(True)
env = gym.make("CartPole-v1")


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 64)
        self.layer2 = nn.Linear(64, 64)
        self.layer3 = nn.Linear(64, n_actions)

    def forward(self, x):
        x = torch.relu(self.layer1(x))
        x = torch.relu(self.layer2(x))
        return self.layer3(x)


policy_net, target_net = DQN(4, 2), DQN(4, 2)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=5e-4, fused=True)
states = np.zeros((CAPACITY, 4), dtype=np.float32)
next_states = np.zeros((CAPACITY, 4), dtype=np.float32)
actions = np.zeros(CAPACITY, dtype=np.int64)
rewards = np.zeros(CAPACITY, dtype=np.float32)
terminals = np.zeros(CAPACITY, dtype=np.float32)
rng = np.random.default_rng(5)


def optimize_model(size):
    rows = rng.integers(0, size, BATCH_SIZE)
    columns = (states, actions, rewards, next_states, terminals)
    state, action, reward, next_state, terminal = (torch.from_numpy(column[rows]) for column in columns)
    with torch.no_grad():
        expected = reward + GAMMA * (1 - terminal) * target_net(next_state).max(1).values
    values = policy_net(state).gather(1, action.unsqueeze(1)).squeeze(1)
    loss = nn.functional.smooth_l1_loss(values, expected)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


observation, _ = env.reset(seed=5)
updates, episode, epsilon = 0, 0, 1.0
started = time.perf_counter()
for step in range(arguments.iterations):
    with torch.no_grad():
        q_values = policy_net(torch.from_numpy(observation))
    action = random.randrange(2) if random.random() < epsilon else int(q_values.argmax())
    next_observation, reward, terminated, truncated, _ = env.step(action)
    place = step % CAPACITY
    states[place], actions[place], rewards[place] = observation, action, reward
    next_states[place], terminals[place] = next_observation, terminated
    if step % 5000 == 0:
        print(f"Episode {episode} | step {step} | epsilon {epsilon:.4f}", flush=True)
    observation = next_observation
    if terminated or truncated:
        observation, _ = env.reset()
        episode += 1
    epsilon = max(0.05, epsilon * 0.9995)
    if step % 4 == 3 and step >= BATCH_SIZE:
        optimize_model(min(step + 1, CAPACITY))
        updates += 1
    if step % 1000 == 0:
        target_net.load_state_dict(policy_net.state_dict())
seconds = time.perf_counter() - started
checksum = sum(parameter.double().abs().sum().item() for parameter in policy_net.parameters())
print(f"DONE transitions={arguments.iterations} {updates=} {seconds=:.3f} {checksum=:.9f}")
