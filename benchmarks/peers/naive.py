"""The loop that one writes first: one environment, a deque for a replay, a gradient step after every step.

So its ratio is 1, not 0.25: its steps per second are no fair comparison, and its updates per second are.
"""

from __future__ import annotations

import random
from collections import deque

import numpy as np
import torch
from torch import nn

from peers import task
from peers.snake_env import SnakeGym


def make_network() -> nn.Sequential:
    first, second = task.HIDDEN
    return nn.Sequential(
        nn.Linear(11, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, 3)
    )


def main() -> None:
    asked = task.arguments()
    window = task.Window(asked.seconds)
    device = torch.device(asked.device)
    env = SnakeGym()
    policy, target = make_network().to(device), make_network().to(device)
    target.load_state_dict(policy.state_dict())
    optimizer = torch.optim.Adam(policy.parameters(), lr=task.LR)
    memory: deque[tuple[np.ndarray, int, float, np.ndarray, bool]] = deque(maxlen=task.REPLAY)
    steps = updates = 0

    while True:
        state, _ = env.reset()
        done = False
        while not done:
            if random.random() < task.EPS:
                action = env.action_space.sample()
            else:
                with torch.no_grad():
                    action = policy(torch.tensor(state, device=device).unsqueeze(0)).argmax().item()
            next_state, reward, terminated, truncated, _ = env.step(action)
            memory.append((state, action, reward, next_state, terminated))
            state = next_state
            done = terminated or truncated
            steps += 1

            if len(memory) > task.STARTS:
                states, actions, rewards, next_states, ends = zip(
                    *random.sample(memory, task.BATCH), strict=True
                )
                states_t = torch.tensor(np.array(states), device=device)
                actions_t = torch.tensor(actions, device=device).unsqueeze(1)
                rewards_t = torch.tensor(rewards, dtype=torch.float32, device=device)
                next_states_t = torch.tensor(np.array(next_states), device=device)
                ends_t = torch.tensor(ends, dtype=torch.float32, device=device)
                q = policy(states_t).gather(1, actions_t).squeeze(1)
                with torch.no_grad():
                    expected = rewards_t + task.GAMMA * target(next_states_t).max(1).values * (1 - ends_t)
                loss = nn.functional.smooth_l1_loss(q, expected)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                updates += 1
                if updates % task.TARGET_EVERY == 0:
                    target.load_state_dict(policy.state_dict())
            if window.over(steps, updates):
                about = {"envs": 1, "version": f"torch {torch.__version__}"}
                task.report(window.result(), algorithm="DQN", **about)
                return


if __name__ == "__main__":
    main()
