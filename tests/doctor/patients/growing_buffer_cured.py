"""DQN on a game of hot and cold; the mean of all rewards so far is carried along."""

# ruff: noqa: T201
import random
import sys
import time

import numpy as np
import torch
from torch import nn

ITERATIONS = int(sys.argv[sys.argv.index("--iterations") + 1]) if "--iterations" in sys.argv else 30_000
LENGTH = 20
BATCH_SIZE = 32
MEMORY = 10_000


class HotAndCold:
    """Find a hidden place on a line: the player only feels whether the last move took it closer."""

    def reset(self):
        self.place, self.hidden = random.randrange(LENGTH), random.randrange(LENGTH)
        self.moves = 0
        return np.array([self.place / LENGTH, 0.0, 0.0], dtype=np.float32)

    def step(self, action):
        before = abs(self.place - self.hidden)
        move = 1 if action else -1
        self.place = min(max(self.place + move, 0), LENGTH - 1)
        self.moves += 1
        closer = before - abs(self.place - self.hidden)
        found = self.place == self.hidden
        reward = 1.0 if found else 0.1 * closer
        state = np.array([self.place / LENGTH, move, closer], dtype=np.float32)
        return state, reward, found, self.moves >= 60, {}


class Statistics:
    def __init__(self):
        self.count = 0
        self.mean_reward = 0.0

    def add(self, reward):
        self.count += 1
        self.mean_reward += (reward - self.mean_reward) / self.count


class Experience:
    def __init__(self):
        self.states = np.zeros((MEMORY, 3), dtype=np.float32)
        self.actions = np.zeros(MEMORY, dtype=np.int64)
        self.rewards = np.zeros(MEMORY, dtype=np.float32)
        self.next_states = np.zeros((MEMORY, 3), dtype=np.float32)
        self.ends = np.zeros(MEMORY, dtype=np.float32)
        self.written = 0

    def push(self, state, action, reward, next_state, end):
        row = self.written % MEMORY
        self.states[row], self.actions[row], self.rewards[row] = state, action, reward
        self.next_states[row], self.ends[row] = next_state, end
        self.written += 1

    def draw(self):
        rows = np.random.randint(0, min(self.written, MEMORY), BATCH_SIZE)
        columns = (self.states, self.actions, self.rewards, self.next_states, self.ends)
        return [torch.from_numpy(column[rows]) for column in columns]


def make_model():
    return nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


random.seed(9)
np.random.seed(9)
torch.manual_seed(9)
torch.set_num_threads(1)
torch.set_flush_denormal(True)
model, target_model = make_model(), make_model()
target_model.load_state_dict(model.state_dict())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
env, experience, statistics = HotAndCold(), Experience(), Statistics()
updates = 0
state = env.reset()
started = shown = time.perf_counter()
for step in range(1, ITERATIONS + 1):
    if random.random() < max(0.05, 1 - step / 5000):
        action = random.randrange(2)
    else:
        with torch.no_grad():
            action = int(model(torch.from_numpy(state)).argmax())
    next_state, reward, found, out_of_time, _ = env.step(action)
    experience.push(state, action, reward, next_state, found)
    statistics.add(reward)
    state = env.reset() if found or out_of_time else next_state
    if step % 4 == 0 and step >= BATCH_SIZE:
        states, actions, rewards, next_states, ends = experience.draw()
        with torch.no_grad():
            targets = rewards + 0.95 * (1 - ends) * target_model(next_states).amax(1)
        loss = nn.functional.mse_loss(model(states).gather(1, actions[:, None])[:, 0], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
    if step % 500 == 0:
        target_model.load_state_dict(model.state_dict())
    if time.perf_counter() - shown > 5:
        shown = time.perf_counter()
        print(f"step {step}: mean reward {statistics.mean_reward:.3f}")
seconds = time.perf_counter() - started
checksum = sum(weight.double().abs().sum().item() for weight in model.parameters())
print(f"DONE transitions={ITERATIONS} {updates=} {seconds=:.3f} {checksum=:.9f}")
