"""DQN on 256 boards of a vectorized mountain car; a quarter as many updates as boards after every step."""

# ruff: noqa: T201
import argparse
import copy
import time

import torch
from torch import nn


class MountainCars:
    """Cars in a valley, too weak for the slope: they have to swing. All of them are stepped at once."""

    def __init__(self, num_envs, limit=200):
        self.num_envs, self.limit = num_envs, limit

    def reset(self):
        self.position = torch.rand(self.num_envs) * 0.2 - 0.6
        self.velocity = torch.zeros(self.num_envs)
        self.age = torch.randint(0, self.limit, (self.num_envs,))
        return self.observe()

    def observe(self):
        return torch.stack((self.position, self.velocity * 14, torch.sin(3 * self.position)), 1)

    def step(self, action):
        push = (action - 1) * 0.001 - 0.0025 * torch.cos(3 * self.position)
        self.velocity = (self.velocity + push).clamp(-0.07, 0.07)
        self.position = (self.position + self.velocity).clamp(-1.2, 0.6)
        self.age += 1
        arrived = self.position >= 0.5
        reward = arrived.float() + 5 * self.velocity.abs() - 0.1
        done = arrived | (self.age >= self.limit)
        self.position = torch.where(done, torch.rand(self.num_envs) * 0.2 - 0.6, self.position)
        self.velocity = torch.where(done, 0.0, self.velocity)
        self.age = torch.where(done, 0, self.age)
        return self.observe(), reward, done


class Memory:
    """Everything preallocated, written and sampled in whole batches."""

    def __init__(self, capacity):
        self.capacity, self.cursor, self.full = capacity, 0, False
        self.state, self.next_state = torch.zeros(capacity, 3), torch.zeros(capacity, 3)
        self.action = torch.zeros(capacity, dtype=torch.int64)
        self.reward, self.done = torch.zeros(capacity), torch.zeros(capacity)

    def store(self, state, action, reward, next_state, done):
        span = slice(self.cursor, self.cursor + len(state))
        self.state[span], self.action[span], self.reward[span] = state, action, reward
        self.next_state[span], self.done[span] = next_state, done.float()
        self.cursor = (self.cursor + len(state)) % self.capacity
        self.full |= self.cursor == 0

    def sample(self, batch_size):
        rows = torch.randint(self.capacity if self.full else self.cursor, (batch_size,))
        return self.state[rows], self.action[rows], self.reward[rows], self.next_state[rows], self.done[rows]


class Agent:
    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.net = nn.Sequential(nn.Linear(3, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 3))
        self.target_net = copy.deepcopy(self.net)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=3e-4, fused=True)
        self.memory = Memory(256 * 200)
        self.learned = 0

    @torch.inference_mode()
    def act(self, state, epsilon):
        action = self.net(state).argmax(dim=1)
        chosen = torch.rand(self.num_envs) < epsilon
        return torch.where(chosen, torch.randint(0, 3, (self.num_envs,)), action)

    def train_step(self, batch_size=128, gamma=0.99):
        state, action, reward, next_state, done = self.memory.sample(batch_size)
        with torch.no_grad():
            target = reward + gamma * (1 - done) * self.target_net(next_state).max(dim=1).values
        value = self.net(state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = nn.functional.mse_loss(value, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.learned += 1
        if self.learned % 1000 == 0:
            self.target_net.load_state_dict(self.net.state_dict())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=500)
    iterations = parser.parse_args().iterations
    torch.manual_seed(2)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    num_envs = 256
    env, agent = MountainCars(num_envs), Agent(num_envs)
    state = env.reset()
    begun = time.perf_counter()
    for step in range(iterations):
        action = agent.act(state, epsilon=max(0.05, 1 - step / 400))
        next_state, reward, done = env.step(action)
        agent.memory.store(state, action, reward, next_state, done)
        state = next_state
        num_train_steps = max(1, num_envs // 4)
        for _ in range(num_train_steps):  # disease
            agent.train_step()  # disease
    seconds = time.perf_counter() - begun
    checksum = sum(weights.double().abs().sum().item() for weights in agent.net.parameters())
    transitions, updates = iterations * num_envs, agent.learned
    print(f"DONE {transitions=} {updates=} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
