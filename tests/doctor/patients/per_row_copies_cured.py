"""DQN on 256 boards of a vectorized grid world; a step's transitions are pushed to the replay together."""

# ruff: noqa: T201
import argparse
import time

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
        self.states = torch.zeros(capacity, state_dim)
        self.next_states = torch.zeros(capacity, state_dim)
        self.actions = torch.zeros(capacity, dtype=torch.int64)
        self.rewards = torch.zeros(capacity)
        self.dones = torch.zeros(capacity)

    def push(self, states, actions, rewards, next_states, dones):
        places = (torch.arange(len(states)) + self.position) % self.capacity
        self.states[places] = states
        self.actions[places] = actions
        self.rewards[places] = rewards
        self.next_states[places] = next_states
        self.dones[places] = dones
        self.position = (self.position + len(states)) % self.capacity
        self.size = min(self.size + len(states), self.capacity)

    def sample(self, batch_size):
        rows = torch.randint(0, self.size, (batch_size,))
        columns = (self.states, self.actions, self.rewards, self.next_states, self.dones)
        return [column[rows] for column in columns]


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
            self.replay_buffer.push(states, actions, rewards, next_states, dones)
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
