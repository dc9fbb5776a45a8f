"""DQN with three layers of 1024 units that plays sixteen games at a time and seldom learns."""

# ruff: noqa: T201
import argparse
import time

import numpy as np
import torch
import torch.nn as nn

STATE = 32
ACTIONS = 8
NUM_ENVS = 16


class Thermostats:
    """Eight rooms cool down towards the weather outside; an action heats one of them. Sixteen such houses."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.rooms = self.rng.normal(0, 1, (NUM_ENVS, ACTIONS)).astype(np.float32)
        self.history = np.zeros((NUM_ENVS, 3, ACTIONS), dtype=np.float32)
        self.hours = np.zeros(NUM_ENVS, dtype=np.int64)
        return self.observe()

    def start_anew(self, done):
        self.rooms[done] = self.rng.normal(0, 1, (done.sum(), ACTIONS))
        self.history[done] = 0
        self.hours[done] = 0

    def observe(self):
        return np.concatenate((self.rooms, self.history.reshape(NUM_ENVS, -1)), axis=1)

    def step(self, action):
        self.history[:, 1:] = self.history[:, :-1]
        self.history[:, 0] = self.rooms
        self.rooms = 0.95 * self.rooms + self.rng.normal(-0.05, 0.05, self.rooms.shape).astype(np.float32)
        self.rooms[np.arange(NUM_ENVS), action] += 0.5
        self.hours += 1
        reward, done = -np.abs(self.rooms).mean(axis=1), self.hours >= 100
        next_state = self.observe()
        if done.any():
            self.start_anew(done)
        return next_state, reward, done


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
        greedy = self.network(torch.from_numpy(state)).argmax(1).numpy()
        explore = self.rng.random(NUM_ENVS) < epsilon
        return np.where(explore, self.rng.integers(0, ACTIONS, NUM_ENVS), greedy)

    def observe(self, state, action, reward, next_state, done):
        row = slice(self.added % self.capacity, self.added % self.capacity + NUM_ENVS)
        self.states[row], self.actions[row], self.rewards[row] = state, action, reward
        self.next_states[row], self.dones[row] = next_state, done
        self.added += NUM_ENVS

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
    for step in range(NUM_ENVS, iterations + 1, NUM_ENVS):
        action = agent.act(state, epsilon=0.05)
        next_state, reward, done = env.step(action)
        agent.observe(state, action, reward, next_state, done)
        state = env.observe() if done.any() else next_state
        if step % 256 == 0:
            agent.learn()
    seconds = time.perf_counter() - start
    checksum = sum(weights.double().abs().sum().item() for weights in agent.network.parameters())
    print(f"DONE transitions={agent.added} updates={agent.updates} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
