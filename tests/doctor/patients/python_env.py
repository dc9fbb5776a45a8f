"""DQN on 32 boards of a light-cycle game whose features count the cells that each turn leaves reachable."""

# ruff: noqa: T201
import argparse
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn

SIZE = 12
DIRECTIONS = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
TURNS = np.array([0, 1, 3])  # straight on, right, left


class LightCycles:
    """A cycle moves on every step and leaves a wall behind; it ends when it hits one."""

    def __init__(self, num_envs, seed):
        self.num_envs = num_envs
        self.rng = np.random.default_rng(seed)
        self.everyone = np.arange(num_envs)

    def reset(self):
        self.walls = np.zeros((self.num_envs, SIZE + 2, SIZE + 2), dtype=bool)
        self.head = np.zeros((self.num_envs, 2), dtype=np.int64)
        self.heading = np.zeros(self.num_envs, dtype=np.int64)
        self.start(np.ones(self.num_envs, dtype=bool))
        return self.features()

    def start(self, ended):
        self.walls[ended] = True
        self.walls[ended, 1:-1, 1:-1] = False
        head = self.rng.integers(1, SIZE + 1, (self.num_envs, 2))
        self.head[ended] = head[ended]
        self.heading[ended] = self.rng.integers(0, 4, self.num_envs)[ended]
        self.walls[self.everyone, self.head[:, 0], self.head[:, 1]] = True

    def flood_fill(self, walls, start):
        """How many cells can be reached from here."""
        if walls[start]:
            return 0
        seen, queue = {start}, deque([start])
        while queue:
            row, column = queue.popleft()  # disease
            for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):  # disease
                neighbor = (row + down, column + right)  # disease
                if neighbor not in seen and not walls[neighbor]:  # disease
                    seen.add(neighbor)  # disease
                    queue.append(neighbor)  # disease
        return len(seen)

    def reachable(self):
        counts = np.zeros((self.num_envs, 3), dtype=np.float32)
        for env_index in range(self.num_envs):
            for turn in range(3):
                step = DIRECTIONS[(self.heading[env_index] + TURNS[turn]) % 4]
                start = tuple((self.head[env_index] + step).tolist())
                counts[env_index, turn] = self.flood_fill(self.walls[env_index], start)  # disease
        return counts

    def features(self):
        ahead = self.head[:, None] + DIRECTIONS[(self.heading[:, None] + TURNS) % 4]
        blocked = self.walls[self.everyone[:, None], ahead[..., 0], ahead[..., 1]]
        parts = (self.reachable() / SIZE**2, blocked, self.head / SIZE)
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def step(self, actions):
        self.heading = (self.heading + TURNS[actions]) % 4
        self.head = self.head + DIRECTIONS[self.heading]
        done = self.walls[self.everyone, self.head[:, 0], self.head[:, 1]]
        self.walls[self.everyone, self.head[:, 0], self.head[:, 1]] = True
        reward = np.where(done, -1.0, 0.1).astype(np.float32)
        self.start(done)
        return self.features(), reward, done


def make_network():
    return nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))


def learn(network, target_network, optimizer, batch):
    states, actions, rewards, next_states, dones = batch
    with torch.no_grad():
        targets = rewards + 0.98 * (1 - dones) * target_network(next_states).amax(1)
    loss = nn.functional.smooth_l1_loss(network(states).gather(1, actions[:, None])[:, 0], targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=3500)
    iterations = parser.parse_args().iterations
    torch.manual_seed(3)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    num_envs, rows = 32, 1000  # the replay is a table: time by environments
    env, rng = LightCycles(num_envs, seed=3), np.random.default_rng(4)
    network, target_network = make_network(), make_network()
    target_network.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-4, fused=True)
    replay = [
        np.zeros((rows, num_envs, 8), dtype=np.float32),
        np.zeros((rows, num_envs), dtype=np.int64),
        np.zeros((rows, num_envs), dtype=np.float32),
        np.zeros((rows, num_envs, 8), dtype=np.float32),
        np.zeros((rows, num_envs), dtype=np.float32),
    ]
    states, updates = env.reset(), 0
    start = time.perf_counter()
    for iteration in range(iterations):
        with torch.no_grad():
            actions = network(torch.from_numpy(states)).argmax(1).numpy()
        explore = rng.random(num_envs) < max(0.05, 1 - iteration / 500)
        actions = np.where(explore, rng.integers(0, 3, num_envs), actions)
        next_states, rewards, dones = env.step(actions)
        for column, values in zip(replay, (states, actions, rewards, next_states, dones), strict=True):
            column[iteration % rows] = values
        states = next_states
        when, who = rng.integers(0, min(iteration + 1, rows), 64), rng.integers(0, num_envs, 64)
        learn(network, target_network, optimizer, [torch.from_numpy(column[when, who]) for column in replay])
        updates += 1
        if updates % 200 == 0:
            target_network.load_state_dict(network.state_dict())
    seconds = time.perf_counter() - start
    checksum = sum(parameter.double().abs().sum().item() for parameter in network.parameters())
    print(f"DONE transitions={iterations * num_envs} {updates=} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
