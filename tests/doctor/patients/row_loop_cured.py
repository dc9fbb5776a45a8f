"""DQN on 32 pendulums, held as tensors; the targets of an update are worked out together."""

# ruff: noqa: T201
import argparse
import time

import torch
import torch.nn as nn

NUM_ENVS = 32
BATCH = 128
CAPACITY = 32 * 1000
DISCOUNT = 0.98


class Pendulums:
    """Swing up with a push to the left, none, or to the right; 150 steps, or until one has swung too fast."""

    def __init__(self, n):
        self.n = n

    def reset(self):
        self.angle = torch.rand(self.n) * 6.28
        self.speed = torch.zeros(self.n)
        self.clock = torch.randint(0, 150, (self.n,))
        return self.state()

    def state(self):
        return torch.stack((self.angle.cos(), self.angle.sin(), self.speed / 8), dim=1)

    def step(self, action):
        self.speed = self.speed + 0.75 * self.angle.sin() + 0.3 * (action - 1)
        self.angle = self.angle + 0.05 * self.speed
        self.clock = self.clock + 1
        reward = self.angle.cos() - 0.01 * self.speed.abs()
        done = (self.clock >= 150) | (self.speed.abs() > 8)
        self.angle = torch.where(done, torch.rand(self.n) * 6.28, self.angle)
        self.speed = torch.where(done, 0.0, self.speed)
        self.clock = torch.where(done, 0, self.clock)
        return self.state(), reward, done.float()


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.head = nn.Linear(64, 3)

    def forward(self, x):
        return self.head(self.body(x))


class Buffer:
    def __init__(self):
        self.states, self.next_states = torch.zeros(CAPACITY, 3), torch.zeros(CAPACITY, 3)
        self.actions = torch.zeros(CAPACITY, dtype=torch.long)
        self.rewards, self.dones = torch.zeros(CAPACITY), torch.zeros(CAPACITY)
        self.where, self.count = 0, 0

    def add(self, states, actions, rewards, next_states, dones):
        rows = slice(self.where, self.where + NUM_ENVS)
        self.states[rows], self.actions[rows], self.rewards[rows] = states, actions, rewards
        self.next_states[rows], self.dones[rows] = next_states, dones
        self.where = (self.where + NUM_ENVS) % CAPACITY
        self.count = min(self.count + NUM_ENVS, CAPACITY)


def choose_action(net, states, epsilon):
    with torch.no_grad():
        best = net(states).argmax(dim=1)
    return torch.where(torch.rand(NUM_ENVS) < epsilon, torch.randint(0, 3, (NUM_ENVS,)), best)


def optimize(net, target_net, optimizer, buffer):
    rows = torch.randint(0, buffer.count, (BATCH,))
    states, actions, rewards = buffer.states[rows], buffer.actions[rows], buffer.rewards[rows]
    next_states, dones = buffer.next_states[rows], buffer.dones[rows]
    with torch.no_grad():
        next_values = target_net(next_states)
        targets = rewards + DISCOUNT * (1 - dones) * next_values.amax(1)
    predicted = net(states).gather(1, actions.view(-1, 1)).view(-1)
    loss = nn.functional.mse_loss(predicted, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=5000)
    iterations = parser.parse_args().iterations
    torch.manual_seed(6)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    env, net, target_net, buffer = Pendulums(NUM_ENVS), QNet(), QNet(), Buffer()
    target_net.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    states, updates = env.reset(), 0
    t0 = time.perf_counter()
    for t in range(iterations):
        actions = choose_action(net, states, epsilon=max(0.1, 1 - t / 2000))
        next_states, rewards, dones = env.step(actions)
        buffer.add(states, actions, rewards, next_states, dones)
        states = next_states
        optimize(net, target_net, optimizer, buffer)
        updates += 1
        if t % 250 == 0:
            target_net.load_state_dict(net.state_dict())
    seconds = time.perf_counter() - t0
    checksum = sum(p.double().abs().sum().item() for p in net.parameters())
    print(f"DONE transitions={iterations * NUM_ENVS} {updates=} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
