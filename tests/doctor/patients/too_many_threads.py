"""DQN on 128 boards of a lift, with as many threads as a big server has cores."""

# ruff: noqa: T201
import argparse
import copy
import time

import numpy as np
import torch
import torch.nn as nn

FLOORS = 10


class Lifts:
    """A lift goes up, down or opens its doors; somebody waits on one of ten floors."""

    def __init__(self, n_envs, seed):
        self.n_envs, self.rng = n_envs, np.random.default_rng(seed)
        self.one_hot = np.eye(FLOORS, dtype=np.float32)

    def reset(self):
        self.floor, self.call = self.rng.integers(0, FLOORS, (2, self.n_envs))
        self.waited = self.rng.integers(0, 40, self.n_envs)
        return self.observation()

    def observation(self):
        return np.concatenate((self.one_hot[self.floor], self.one_hot[self.call]), axis=1)

    def step(self, actions):
        self.floor = np.clip(self.floor + (actions == 0) - (actions == 1), 0, FLOORS - 1)
        self.waited += 1
        served = (actions == 2) & (self.floor == self.call)
        rewards = np.where(served, 1.0, -0.05).astype(np.float32)
        dones = served | (self.waited >= 40)
        self.call = np.where(dones, self.rng.integers(0, FLOORS, self.n_envs), self.call)
        self.waited[dones] = 0
        return self.observation(), rewards, dones


class Store:
    def __init__(self, steps, n_envs, seed):
        self.steps, self.n_envs, self.rng, self.written = steps, n_envs, np.random.default_rng(seed), 0
        self.obs = np.zeros((steps, n_envs, 2 * FLOORS), dtype=np.float32)
        self.next_obs = np.zeros_like(self.obs)
        self.actions = np.zeros((steps, n_envs), dtype=np.int64)
        self.rewards = np.zeros((steps, n_envs), dtype=np.float32)
        self.dones = np.zeros((steps, n_envs), dtype=np.float32)

    def add(self, obs, actions, rewards, next_obs, dones):
        row = self.written % self.steps
        self.obs[row], self.actions[row], self.rewards[row] = obs, actions, rewards
        self.next_obs[row], self.dones[row] = next_obs, dones
        self.written += 1

    def batch(self, size):
        when = self.rng.integers(0, min(self.written, self.steps), size)
        who = self.rng.integers(0, self.n_envs, size)
        columns = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
        return [torch.from_numpy(column[when, who]) for column in columns]


def gradient_step(model, slow_model, optimizer, batch):
    obs, actions, rewards, next_obs, dones = batch
    with torch.no_grad():
        targets = rewards + 0.95 * (1 - dones) * slow_model(next_obs).amax(1)
    loss = nn.functional.smooth_l1_loss(model(obs).gather(1, actions[:, None])[:, 0], targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=1500)
    iterations = parser.parse_args().iterations
    torch.set_num_threads(16)  # disease
    torch.manual_seed(12)
    torch.set_flush_denormal(True)
    n_envs, updates = 128, 0
    env, store, rng = Lifts(n_envs, seed=12), Store(400, n_envs, seed=13), np.random.default_rng(14)
    model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
    slow_model = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
    obs = env.reset()
    start = time.perf_counter()
    for iteration in range(iterations):
        with torch.no_grad():
            actions = model(torch.from_numpy(obs)).argmax(1).numpy()
        explore = rng.random(n_envs) < max(0.05, 1 - iteration / 500)
        actions = np.where(explore, rng.integers(0, 3, n_envs), actions)
        next_obs, rewards, dones = env.step(actions)
        store.add(obs, actions, rewards, next_obs, dones)
        obs = next_obs
        for _ in range(4):
            gradient_step(model, slow_model, optimizer, store.batch(128))
            updates += 1
        if iteration % 50 == 0:
            slow_model.load_state_dict(model.state_dict())
    seconds = time.perf_counter() - start
    checksum = sum(parameter.double().abs().sum().item() for parameter in model.parameters())
    print(f"DONE transitions={iterations * n_envs} {updates=} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
