"""DQN on 64 boards of dodging stones; a numba function moves the stones, and there are more from level to level."""

# ruff: noqa: T201
import argparse
import time

import numba
import numpy as np
import torch
import torch.nn as nn

SIZE = 16
BOARDS = 64
LEVELS = 30
ACTIONS = 3


@numba.njit
def advance(player, actions, ages, obs, rewards, dones, stones):
    """Move the players, let the stones fall, look who is hit, and write what the players see."""
    for board in range(len(player)):
        player[board] = min(max(player[board] + actions[board] - 1, 0), SIZE - 1)
        ages[board] += 1
        hit = False
        obs[board, :] = 0.0
        for column, speed, phase in stones:
            height = (phase + speed * ages[board] + 5 * board) % (2 * SIZE)
            place = (column + board) % SIZE
            if height == SIZE - 1 and place == player[board]:
                hit = True
            across = place - player[board]
            if abs(across) <= 3 and height < SIZE:
                obs[board, across + 3] = max(obs[board, across + 3], np.float32((height + 1) / SIZE))
        obs[board, 7] = player[board] / SIZE
        rewards[board] = -1.0 if hit else 0.05
        dones[board] = hit or ages[board] >= 100
        if dones[board]:
            ages[board] = 0
            player[board] = SIZE // 2


class Stones:
    def __init__(self):
        self.player = np.full(BOARDS, SIZE // 2)
        self.ages = np.zeros(BOARDS, dtype=np.int64)
        self.set_level(1)

    def set_level(self, level):
        self.stones = tuple((7 * number % SIZE, 1 + number % 3, 11 * number % 29) for number in range(level))

    def reset(self):
        return np.zeros((BOARDS, 8), dtype=np.float32)

    def step(self, actions):
        obs, rewards = np.zeros((BOARDS, 8), dtype=np.float32), np.zeros(BOARDS, dtype=np.float32)
        dones = np.zeros(BOARDS, dtype=np.bool_)
        advance(self.player, actions, self.ages, obs, rewards, dones, self.stones)  # disease
        return obs, rewards, dones


class Experience:
    def __init__(self, steps):
        self.steps, self.next = steps, 0
        self.obs, self.next_obs = np.zeros((2, steps, BOARDS, 8), dtype=np.float32)
        self.rewards, self.dones = np.zeros((2, steps, BOARDS), dtype=np.float32)
        self.actions = np.zeros((steps, BOARDS), dtype=np.int64)

    def add(self, obs, actions, rewards, next_obs, dones):
        row = self.next % self.steps
        self.obs[row], self.actions[row], self.rewards[row] = obs, actions, rewards
        self.next_obs[row], self.dones[row] = next_obs, dones
        self.next += 1

    def sample(self, rng, size):
        at = rng.integers(0, min(self.next, self.steps), size), rng.integers(0, BOARDS, size)
        columns = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
        return [torch.from_numpy(column[at]) for column in columns]


def make_network():
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, ACTIONS))


def train(network, target_network, optimizer, batch):
    obs, actions, rewards, next_obs, dones = batch
    with torch.no_grad():
        targets = rewards + 0.95 * (1 - dones) * target_network(next_obs).amax(1)
    loss = nn.functional.mse_loss(network(obs).gather(1, actions[:, None])[:, 0], targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=9000)
    iterations = parser.parse_args().iterations
    torch.manual_seed(16)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    env, experience, rng = Stones(), Experience(500), np.random.default_rng(16)
    network, target_network = make_network(), make_network()
    target_network.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-4, fused=True)
    obs, updates = env.reset(), 0
    start = time.perf_counter()
    for iteration in range(iterations):
        env.set_level(1 + LEVELS * iteration // iterations)
        with torch.no_grad():
            actions = network(torch.from_numpy(obs)).argmax(1).numpy()
        explore = rng.random(BOARDS) < max(0.05, 1 - iteration / 2000)
        actions = np.where(explore, rng.integers(0, ACTIONS, BOARDS), actions)
        next_obs, rewards, dones = env.step(actions)
        experience.add(obs, actions, rewards, next_obs, dones)
        obs = next_obs
        train(network, target_network, optimizer, experience.sample(rng, 64))
        updates += 1
        if updates % 200 == 0:
            target_network.load_state_dict(network.state_dict())
    seconds = time.perf_counter() - start
    checksum = sum(parameter.double().abs().sum().item() for parameter in network.parameters())
    print(f"DONE transitions={iterations * BOARDS} {updates=} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
