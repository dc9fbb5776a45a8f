"""DQN on 64 tensor boards of "follow the light"; the losses are kept, as numbers, for a picture."""

# ruff: noqa: T201
import argparse
import copy
import time
from collections import deque

import torch
import torch.nn as nn


class FollowTheLight:
    """A light wanders along a ring of 24 cells, the player has to stay close to it."""

    def __init__(self, n, cells=24, limit=60):
        self.n, self.cells, self.limit = n, cells, limit

    def reset(self):
        self.player = torch.randint(0, self.cells, (self.n,))
        self.light = torch.randint(0, self.cells, (self.n,))
        self.time = torch.randint(0, self.limit, (self.n,))
        return self.look()

    def look(self):
        turn = (self.light - self.player) * (6.2831853 / self.cells)
        return torch.stack((turn.cos(), turn.sin(), (2 * turn).cos(), (2 * turn).sin()), 1)

    def step(self, actions):
        self.player = (self.player + actions - 1) % self.cells
        self.light = (self.light + torch.randint(-1, 2, (self.n,))) % self.cells
        self.time = self.time + 1
        apart = (self.light - self.player) % self.cells
        reward = 1 - torch.minimum(apart, self.cells - apart) / 6
        done = self.time >= self.limit
        self.player = torch.where(done, torch.randint(0, self.cells, (self.n,)), self.player)
        self.time = torch.where(done, 0, self.time)
        return self.look(), reward, done.float()


class Transitions:
    def __init__(self, steps, n):
        self.steps, self.n, self.filled = steps, n, 0
        self.obs, self.following = torch.zeros(steps, n, 4), torch.zeros(steps, n, 4)
        self.action = torch.zeros(steps, n, dtype=torch.long)
        self.reward, self.done = torch.zeros(steps, n), torch.zeros(steps, n)

    def write(self, obs, action, reward, following, done):
        row = self.filled % self.steps
        self.obs[row], self.action[row], self.reward[row] = obs, action, reward
        self.following[row], self.done[row] = following, done
        self.filled += 1

    def read(self, batch):
        at = torch.randint(0, min(self.filled, self.steps), (batch,)), torch.randint(0, self.n, (batch,))
        return self.obs[at], self.action[at], self.reward[at], self.following[at], self.done[at]


class Learner:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3))
        self.slow_q = copy.deepcopy(self.q)
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-3, fused=True)
        self.losses = deque(maxlen=1000)
        self.total_loss = 0.0
        self.updates = 0

    def learn(self, batch):
        obs, action, reward, following, done = batch
        with torch.no_grad():
            goal = reward + 0.95 * (1 - done) * self.slow_q(following).amax(1)
        loss = ((self.q(obs).gather(1, action[:, None])[:, 0] - goal) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.total_loss = self.total_loss + loss.detach()
        self.updates += 1
        if self.updates % 100 == 0:
            self.losses.append(loss.item())
        if self.updates % 400 == 0:
            self.slow_q.load_state_dict(self.q.state_dict())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=8000)
    iterations = parser.parse_args().iterations
    torch.manual_seed(8)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    n = 64
    env, learner, transitions = FollowTheLight(n), Learner(), Transitions(800, n)
    obs = env.reset()
    begin = time.perf_counter()
    for number in range(iterations):
        with torch.no_grad():
            greedy = learner.q(obs).argmax(1)
        exploring = torch.rand(n) < max(0.05, 1 - number / 1000)
        action = torch.where(exploring, torch.randint(0, 3, (n,)), greedy)
        following, reward, done = env.step(action)
        transitions.write(obs, action, reward, following, done)
        obs = following
        for _ in range(4):
            learner.learn(transitions.read(64))
    seconds = time.perf_counter() - begin
    checksum = sum(p.double().abs().sum().item() for p in learner.q.parameters())
    print(f"mean loss {float(learner.total_loss) / learner.updates:.5f}")
    print(f"DONE transitions={iterations * n} updates={learner.updates} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
