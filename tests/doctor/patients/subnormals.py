"""DQN with the Nature paper's RMSprop on a maze of four levels; what was learned of the first three fades away."""

# ruff: noqa: T201
import argparse
import copy
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SIDE = 22
LEVELS = 4
CELLS = SIDE * SIDE
NUM_ENVS = 32


class Maze:
    """Find the way to the far corner; the observation is the number of the cell, each level has its own."""

    MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])

    def __init__(self):
        self.level = 0

    def reset(self):
        self.place = torch.randint(0, SIDE, (NUM_ENVS, 2))
        self.age = torch.randint(0, 100, (NUM_ENVS,))
        return self.observe()

    def observe(self):
        return self.level * CELLS + self.place[:, 0] * SIDE + self.place[:, 1]

    def step(self, actions):
        self.place = (self.place + self.MOVES[actions]).clamp(0, SIDE - 1)
        self.age = self.age + 1
        arrived = (self.place == SIDE - 1).all(1)
        reward = arrived.float()
        done = arrived | (self.age >= 100)
        self.place = torch.where(done[:, None], torch.randint(0, SIDE, (NUM_ENVS, 2)), self.place)
        self.age = torch.where(done, 0, self.age)
        return self.observe(), reward, done.float()


class ReplayMemory:
    def __init__(self, steps):
        self.steps, self.used = steps, 0
        self.cells, self.next_cells, self.actions = torch.zeros(3, steps, NUM_ENVS, dtype=torch.long)
        self.rewards, self.dones = torch.zeros(2, steps, NUM_ENVS)

    def push(self, cells, actions, rewards, next_cells, dones):
        row = self.used % self.steps
        self.cells[row], self.actions[row], self.rewards[row] = cells, actions, rewards
        self.next_cells[row], self.dones[row] = next_cells, dones
        self.used += 1

    def sample(self, size):
        at = torch.randint(0, min(self.used, self.steps), (size,)), torch.randint(0, NUM_ENVS, (size,))
        return self.cells[at], self.actions[at], self.rewards[at], self.next_cells[at], self.dones[at]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.Embedding(LEVELS * CELLS, 64)
        self.hidden = nn.Linear(64, 64)
        self.values = nn.Linear(64, 4)

    def forward(self, cells):
        return self.values(F.relu(self.hidden(self.cells(cells))))


class Agent:
    def __init__(self):
        self.network = Network()
        self.target_network = copy.deepcopy(self.network)
        self.optimizer = torch.optim.RMSprop(self.network.parameters(), lr=2.5e-4, alpha=0.95, eps=0.01)
        self.updates = 0

    @torch.no_grad()
    def select_action(self, cells, epsilon):
        explore = torch.rand(NUM_ENVS) < epsilon
        return torch.where(explore, torch.randint(0, 4, (NUM_ENVS,)), self.network(cells).argmax(1))

    def learn(self, cells, actions, rewards, next_cells, dones):
        with torch.no_grad():
            targets = rewards + 0.95 * (1 - dones) * self.target_network(next_cells).amax(1)
        values = self.network(cells).gather(1, actions[:, None])[:, 0]
        loss = F.smooth_l1_loss(values, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()  # disease
        self.updates += 1
        if self.updates % 200 == 0:
            self.target_network.load_state_dict(self.network.state_dict())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=10_000)
    iterations = parser.parse_args().iterations
    torch.manual_seed(15)
    torch.set_num_threads(1)
    env, agent, memory = Maze(), Agent(), ReplayMemory(300)
    cells = env.reset()
    start = time.perf_counter()
    for iteration in range(iterations):
        if iteration % 300 == 0 and iteration // 300 < LEVELS:
            env.level = iteration // 300
            cells = env.reset()
        actions = agent.select_action(cells, epsilon=0.2)
        next_cells, rewards, dones = env.step(actions)
        memory.push(cells, actions, rewards, next_cells, dones)
        cells = next_cells
        agent.learn(*memory.sample(32))
    seconds = time.perf_counter() - start
    checksum = sum(weights.double().abs().sum().item() for weights in agent.network.parameters())
    print(f"DONE transitions={iterations * NUM_ENVS} updates={agent.updates} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
