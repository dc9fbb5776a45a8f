"""DQN with a deep and narrow network on 64 boards of a pursuit, all of them tensors."""

# ruff: noqa: T201
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Pursuit:
    """Two points on the plane: one flees in a straight line, the other steers after it by turning."""

    def __init__(self, count, limit=80):
        self.count, self.limit = count, limit

    def reset(self):
        self.gap = torch.randn(self.count, 2)
        self.course = torch.rand(self.count) * 6.28
        self.flight = torch.randn(self.count, 2) * 0.03
        self.ticks = torch.randint(0, self.limit, (self.count,))
        return self.view()

    def view(self):
        heading = torch.stack((self.course.cos(), self.course.sin()), 1)
        return torch.cat((self.gap, self.flight * 10, heading), 1)

    def step(self, turn):
        self.course = self.course + 0.3 * (turn - 1)
        heading = torch.stack((self.course.cos(), self.course.sin()), 1)
        self.gap = self.gap + self.flight - 0.06 * heading
        self.ticks = self.ticks + 1
        distance = self.gap.norm(dim=1)
        caught = distance < 0.1
        reward = caught.float() - 0.02 * distance
        done = caught | (self.ticks >= self.limit)
        self.gap = torch.where(done[:, None], torch.randn(self.count, 2), self.gap)
        self.ticks = torch.where(done, 0, self.ticks)
        return self.view(), reward, done.float()


class DeepNarrow(nn.Module):
    def __init__(self, width=40, depth=12):
        super().__init__()
        self.first = nn.Linear(6, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.last = nn.Linear(width, 3)

    def forward(self, x):
        x = F.silu(self.first(x))
        for block in self.blocks:
            x = x + F.silu(block(x))
        return self.last(x)


class Ring:
    def __init__(self, steps, count):
        self.steps, self.count, self.cursor = steps, count, 0
        self.states, self.next_states = torch.zeros(steps, count, 6), torch.zeros(steps, count, 6)
        self.actions = torch.zeros(steps, count, dtype=torch.long)
        self.rewards, self.dones = torch.zeros(steps, count), torch.zeros(steps, count)

    def push(self, states, actions, rewards, next_states, dones):
        row = self.cursor % self.steps
        self.states[row], self.actions[row], self.rewards[row] = states, actions, rewards
        self.next_states[row], self.dones[row] = next_states, dones
        self.cursor += 1

    def sample(self, size):
        when = torch.randint(0, min(self.cursor, self.steps), (size,))
        at = when, torch.randint(0, self.count, (size,))
        return self.states[at], self.actions[at], self.rewards[at], self.next_states[at], self.dones[at]


def select_action(network, states, epsilon):
    values = network(states)  # disease
    explore = torch.rand(len(states)) < epsilon
    return torch.where(explore, torch.randint(0, 3, (len(states),)), values.argmax(1))


def train_batch(network, target_network, optimizer, batch):
    states, actions, rewards, next_states, dones = batch
    next_values = target_network(next_states).max(dim=1).values  # disease
    targets = rewards + 0.97 * (1 - dones) * next_values
    loss = F.mse_loss(network(states).gather(1, actions.unsqueeze(1)).squeeze(1), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=4000)
    iterations = parser.parse_args().iterations
    torch.manual_seed(11)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    boards, updates = 64, 0
    env, ring = Pursuit(boards), Ring(1000, boards)
    network, target_network = DeepNarrow(), DeepNarrow()
    target_network.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-4, fused=True)
    states = env.reset()
    start = time.perf_counter()
    for iteration in range(iterations):
        actions = select_action(network, states, epsilon=max(0.05, 1 - iteration / 1000))
        next_states, rewards, dones = env.step(actions)
        ring.push(states, actions, rewards, next_states, dones)
        states = next_states
        for _ in range(2):
            train_batch(network, target_network, optimizer, ring.sample(64))
            updates += 1
        if iteration % 100 == 0:
            target_network.load_state_dict(network.state_dict())
    seconds = time.perf_counter() - start
    checksum = sum(p.double().abs().sum().item() for p in network.parameters())
    print(f"DONE transitions={iterations * boards} {updates=} {seconds=:.3f} {checksum=:.9f}")
