"""DQN with a deque of tuples, in the way of a first tutorial: a mouse looks for cheese and keeps off the cat."""

# ruff: noqa: T201
import argparse
import random
import time
from collections import deque

import torch
import torch.nn as nn

SIZE = 8
MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0)]


class MouseEnv:
    """The board as a list of 64 numbers: 1 the mouse, 0.5 the cheese, -1 the cat."""

    def __init__(self, limit=50):
        self.limit = limit

    def reset(self):
        self.mouse, self.cheese, self.cat = (self.place() for _ in range(3))
        self.steps = 0
        return self.observe()

    def place(self):
        return random.randrange(SIZE), random.randrange(SIZE)

    def observe(self):
        board = [0.0] * (SIZE * SIZE)
        for (row, column), value in ((self.cheese, 0.5), (self.cat, -1.0), (self.mouse, 1.0)):
            board[row * SIZE + column] = value
        return board

    def moved(self, place, action):
        row, column = place[0] + MOVES[action][0], place[1] + MOVES[action][1]
        return min(max(row, 0), SIZE - 1), min(max(column, 0), SIZE - 1)

    def step(self, action):
        self.mouse = self.moved(self.mouse, action)
        self.cat = self.moved(self.cat, random.randrange(4))
        self.steps += 1
        eaten, caught = self.mouse == self.cheese, self.mouse == self.cat
        reward = 1.0 if eaten else -1.0 if caught else -0.01
        return self.observe(), reward, eaten or caught or self.steps >= self.limit


class DQNAgent:
    def __init__(self, state_size, action_size):
        self.state_size, self.action_size = state_size, action_size
        self.memory = deque(maxlen=50_000)
        self.gamma, self.epsilon = 0.95, 1.0
        self.model, self.target_model = self.build_model(), self.build_model()
        self.target_model.load_state_dict(self.model.state_dict())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)
        self.updates = 0

    def build_model(self):
        return nn.Sequential(nn.Linear(self.state_size, 64), nn.ReLU(), nn.Linear(64, self.action_size))

    def remember(self, state, action, reward, next_state, done):
        self.memory.append((state, action, reward, next_state, done))

    def act(self, state):
        if random.random() < self.epsilon:
            return random.randrange(self.action_size)
        with torch.no_grad():
            return self.model(torch.tensor([state])).argmax().item()

    def replay(self, batch_size):
        minibatch = random.sample(self.memory, batch_size)
        states = torch.tensor([t[0] for t in minibatch])  # disease
        actions = torch.tensor([t[1] for t in minibatch])  # disease
        rewards = torch.tensor([t[2] for t in minibatch])  # disease
        next_states = torch.tensor([t[3] for t in minibatch])  # disease
        dones = torch.tensor([float(t[4]) for t in minibatch])  # disease
        with torch.no_grad():
            targets = rewards + self.gamma * (1 - dones) * self.target_model(next_states).amax(1)
        values = self.model(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = nn.functional.mse_loss(values, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % 500 == 0:
            self.target_model.load_state_dict(self.model.state_dict())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=25_000)
    iterations = parser.parse_args().iterations
    random.seed(4)
    torch.manual_seed(4)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    env = MouseEnv()
    agent = DQNAgent(SIZE * SIZE, len(MOVES))
    batch_size = 128
    state = env.reset()
    start = time.perf_counter()
    for step in range(iterations):
        action = agent.act(state)
        next_state, reward, done = env.step(action)
        agent.remember(state, action, reward, next_state, done)
        state = env.reset() if done else next_state
        agent.epsilon = max(0.05, agent.epsilon * 0.9998)
        if step % 4 == 0 and len(agent.memory) >= batch_size:
            agent.replay(batch_size)
    seconds = time.perf_counter() - start
    checksum = sum(weights.double().abs().sum().item() for weights in agent.model.parameters())
    print(f"DONE transitions={iterations} updates={agent.updates} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
