"""Double DQN on 256 boards of Catch. Nothing is wrong with it."""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import copy
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SIZE = 10
BOARDS = 256
CAPACITY = 50_000
BATCH_SIZE = 256
UPDATES_PER_STEP = 8
GAMMA = 0.99


class Catch:
    """A ball falls down the board, the paddle at the bottom has to be under it in the end."""

    def __init__(self, boards: int) -> None:
        self.boards = boards

    def reset(self) -> Tensor:
        self.ball_x = torch.randint(0, SIZE, (self.boards,))
        self.ball_y = torch.randint(0, SIZE - 1, (self.boards,))
        self.paddle = torch.randint(0, SIZE, (self.boards,))
        return self.observe()

    def observe(self) -> Tensor:
        parts = (self.ball_x, self.ball_y, self.paddle, self.ball_x - self.paddle)
        return torch.stack(parts, 1).float() / SIZE

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.paddle = (self.paddle + actions - 1).clamp(0, SIZE - 1)
        self.ball_y = self.ball_y + 1
        done = self.ball_y == SIZE - 1
        caught = torch.where(self.ball_x == self.paddle, 1.0, -1.0)
        reward = torch.where(done, caught, 0.0)
        self.ball_x = torch.where(done, torch.randint(0, SIZE, (self.boards,)), self.ball_x)
        self.ball_y = torch.where(done, 0, self.ball_y)
        return self.observe(), reward, done.float()


class Replay:
    """A ring of tensors, written and read by whole batches."""

    def __init__(self, capacity: int) -> None:
        self.obs = torch.zeros(capacity, 4)
        self.next_obs = torch.zeros(capacity, 4)
        self.actions = torch.zeros(capacity, dtype=torch.long)
        self.rewards = torch.zeros(capacity)
        self.dones = torch.zeros(capacity)
        self.capacity, self.position, self.size = capacity, 0, 0

    def add(self, obs: Tensor, actions: Tensor, rewards: Tensor, next_obs: Tensor, dones: Tensor) -> None:
        places = (torch.arange(len(obs)) + self.position) % self.capacity
        self.obs[places], self.next_obs[places] = obs, next_obs
        self.actions[places], self.rewards[places], self.dones[places] = actions, rewards, dones
        self.position = (self.position + len(obs)) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, count: int) -> tuple[Tensor, ...]:
        rows = torch.randint(0, self.size, (count,))
        columns = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
        return tuple(column[rows] for column in columns)


def update(network: nn.Module, target: nn.Module, optimizer: torch.optim.Optimizer, replay: Replay) -> None:
    obs, actions, rewards, next_obs, dones = replay.sample(BATCH_SIZE)
    with torch.no_grad():
        best = network(next_obs).argmax(1, keepdim=True)
        goal = rewards + GAMMA * (1 - dones) * target(next_obs).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(network(obs).gather(1, actions[:, None]).squeeze(1), goal)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=2000)
    iterations = parser.parse_args().iterations
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    env, replay = Catch(BOARDS), Replay(CAPACITY)
    network = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
    target = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-4, fused=True)
    obs, updates = env.reset(), 0
    start = shown = time.perf_counter()
    for iteration in range(1, iterations + 1):
        epsilon = max(0.05, 1 - iteration / 500)
        with torch.no_grad():
            greedy = network(obs).argmax(1)
        explore = torch.rand(BOARDS) < epsilon
        actions = torch.where(explore, torch.randint(0, 3, (BOARDS,)), greedy)
        next_obs, rewards, dones = env.step(actions)
        replay.add(obs, actions, rewards, next_obs, dones)
        obs = next_obs
        for _ in range(UPDATES_PER_STEP):
            update(network, target, optimizer, replay)
        updates += UPDATES_PER_STEP
        if iteration % 50 == 0:
            target.load_state_dict(network.state_dict())
        if time.perf_counter() - shown > 5:
            shown = time.perf_counter()
            print(f"{iteration} iterations, {iteration * BOARDS / (shown - start):.0f} transitions/s")
    seconds = time.perf_counter() - start
    checksum = sum(weight.double().abs().sum().item() for weight in network.parameters())
    print(f"DONE transitions={iterations * BOARDS} {updates=} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
