"""DQN with three layers of 1024 units that plays one game at a time and seldom learns."""

# ruff: noqa: T201
import argparse
import time

import numpy as np
import torch
import torch.nn as nn

STATE = 32
ACTIONS = 8


class Thermostats:
    """Eight rooms cool down towards the weather outside; an action heats one of them."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.rooms = self.rng.normal(0, 1, ACTIONS).astype(np.float32)
        self.history = np.zeros((3, ACTIONS), dtype=np.float32)
        self.hours = 0
        return self.observe()

    def observe(self):
        return np.concatenate((self.rooms, self.history.ravel()))

    def step(self, action):
        self.history[1:] = self.history[:-1]
        self.history[0] = self.rooms
        self.rooms = 0.95 * self.rooms + self.rng.normal(-0.05, 0.05, ACTIONS).astype(np.float32)
        self.rooms[action] += 0.5
        self.hours += 1
        return self.observe(), -float(np.abs(self.rooms).mean()), self.hours >= 100


class Agent:
    def __init__(self, capacity=20_000):
        self.network, self.target = self.make(), self.make()
        self.target.load_state_dict(self.network.state_dict())
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-4, fused=True)
        self.rng = np.random.default_rng(10)
        self.capacity, self.added, self.updates = capacity, 0, 0
        self.states = np.zeros((capacity, STATE), dtype=np.float32)
        self.next_states = np.zeros((capacity, STATE), dtype=np.float32)
        self.actions = np.zeros(capacity, dtype=np.int64)
        self.rewards = np.zeros(capacity, dtype=np.float32)
        self.dones = np.zeros(capacity, dtype=np.float32)

    def make(self):
        layers = [nn.Linear(STATE, 1024), nn.ReLU()]
        for _ in range(2):
            layers += [nn.Linear(1024, 1024), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(1024, ACTIONS))

    @torch.no_grad()
    def act(self, state, epsilon):
        if self.rng.random() < epsilon:
            return int(self.rng.integers(ACTIONS))
        return int(self.network(torch.from_numpy(state).unsqueeze(0)).argmax())  # disease

    def observe(self, state, action, reward, next_state, done):
        row = self.added % self.capacity
        self.states[row], self.actions[row], self.rewards[row] = state, action, reward
        self.next_states[row], self.dones[row] = next_state, done
        self.added += 1

    def learn(self, batch_size=32, gamma=0.99):
        rows = self.rng.integers(0, min(self.added, self.capacity), batch_size)
        columns = (self.states, self.actions, self.rewards, self.next_states, self.dones)
        states, actions, rewards, next_states, dones = (torch.from_numpy(c[rows]) for c in columns)
        with torch.no_grad():
            targets = rewards + gamma * (1 - dones) * self.target(next_states).amax(1)
        loss = nn.functional.smooth_l1_loss(self.network(states).gather(1, actions[:, None])[:, 0], targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % 50 == 0:
            self.target.load_state_dict(self.network.state_dict())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=40_000)
    iterations = parser.parse_args().iterations
    torch.manual_seed(10)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    env, agent = Thermostats(seed=10), Agent()
    state = env.reset()
    start = time.perf_counter()
    for step in range(1, iterations + 1):
        action = agent.act(state, epsilon=0.05)
        next_state, reward, done = env.step(action)
        agent.observe(state, action, reward, next_state, done)
        state = env.reset() if done else next_state
        if step % 256 == 0:
            agent.learn()
    seconds = time.perf_counter() - start
    checksum = sum(weights.double().abs().sum().item() for weights in agent.network.parameters())
    print(f"DONE transitions={iterations} updates={agent.updates} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
