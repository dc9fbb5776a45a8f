"""DQN on 256 boards of a vectorized grid world; every transition is pushed to the replay on its own."""

# ruff: noqa: T201
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class VectorGrid:
    """Walk to the goal on an 8x8 board; all boards are stepped at once."""

    MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])

    def __init__(self, num_envs, size=8, limit=40):
        self.num_envs, self.size, self.limit = num_envs, size, limit

    def places(self):
        return torch.randint(0, self.size, (self.num_envs, 2))

    def reset(self):
        self.agent, self.goal = self.places(), self.places()
        self.age = torch.randint(0, self.limit, (self.num_envs,))
        return self.features()

    def features(self):
        return torch.cat((self.agent, self.goal, self.goal - self.agent), 1).float() / self.size

    def step(self, actions):
        self.agent = (self.agent + self.MOVES[actions]).clamp(0, self.size - 1)
        self.age = self.age + 1
        found = (self.agent == self.goal).all(1)
        dones = found | (self.age >= self.limit)
        rewards = torch.where(found, 1.0, -0.01)
        self.agent = torch.where(dones[:, None], self.places(), self.agent)
        self.goal = torch.where(dones[:, None], self.places(), self.goal)
        self.age = torch.where(dones, 0, self.age)
        return self.features(), rewards, dones.float()


class ReplayBuffer:
    def __init__(self, capacity, state_dim):
        self.capacity, self.position, self.size = capacity, 0, 0
        self.states = np.zeros((capacity, state_dim), dtype=np.float32)
        self.next_states = np.zeros((capacity, state_dim), dtype=np.float32)
        self.actions = np.zeros(capacity, dtype=np.int64)
        self.rewards = np.zeros(capacity, dtype=np.float32)
        self.dones = np.zeros(capacity, dtype=np.float32)

    def push(self, state, action, reward, next_state, done):
        place = self.position
        self.states[place] = state
        self.actions[place] = action
        self.rewards[place] = reward
        self.next_states[place] = next_state
        self.dones[place] = done
        self.position = (place + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, batch_size):
        rows = torch.randint(0, self.size, (batch_size,)).numpy()
        columns = (self.states, self.actions, self.rewards, self.next_states, self.dones)
        return [torch.from_numpy(column[rows]) for column in columns]


class DQNTrainer:
    def __init__(self, num_envs=256, batch_size=64, gamma=0.97, train_steps=2):
        self.num_envs, self.batch_size, self.gamma, self.train_steps = (
            num_envs,
            batch_size,
            gamma,
            train_steps,
        )
        self.env = VectorGrid(num_envs)
        self.policy_net, self.target_net = self.build(), self.build()
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.optimizer = torch.optim.Adam(self.policy_net.parameters(), lr=1e-3, fused=True)
        self.replay_buffer = ReplayBuffer(50_000, 6)
        self.updates = 0

    def build(self):
        return nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

    @torch.no_grad()
    def select_actions(self, states, epsilon):
        random = torch.randint(0, 4, (self.num_envs,))
        return torch.where(torch.rand(self.num_envs) < epsilon, random, self.policy_net(states).argmax(1))

    def train_step(self):
        states, actions, rewards, next_states, dones = self.replay_buffer.sample(self.batch_size)
        with torch.no_grad():
            targets = rewards + self.gamma * (1 - dones) * self.target_net(next_states).amax(1)
        values = self.policy_net(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(values, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1

    def train(self, iterations):
        states = self.env.reset()
        for iteration in range(iterations):
            actions = self.select_actions(states, max(0.05, 1 - iteration / 1000))
            next_states, rewards, dones = self.env.step(actions)
            for i in range(self.num_envs):  # disease
                self.replay_buffer.push(  # disease
                    states[i].cpu().numpy(),  # disease
                    actions[i].item(),  # disease
                    rewards[i].item(),  # disease
                    next_states[i].cpu().numpy(),  # disease
                    dones[i].item(),  # disease
                )
            states = next_states
            for _ in range(self.train_steps):
                self.train_step()
            if iteration % 100 == 0:
                self.target_net.load_state_dict(self.policy_net.state_dict())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=5000)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    trainer = DQNTrainer()
    start = time.perf_counter()
    trainer.train(arguments.iterations)
    seconds = time.perf_counter() - start
    checksum = sum(parameter.double().abs().sum().item() for parameter in trainer.policy_net.parameters())
    transitions = arguments.iterations * trainer.num_envs
    print(f"DONE transitions={transitions} updates={trainer.updates} {seconds=:.3f} {checksum=:.9f}")
