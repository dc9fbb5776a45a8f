"""A loop in CleanRL's style, written for this comparison: one file, one environment, plain DQN.

CleanRL's DQN refuses more than one environment, and trains every `train_frequency` steps. It has no package to
install; like it, this uses the replay buffer of Stable-Baselines3, and logs every 100 steps.
"""

from __future__ import annotations

import random
import time

import numpy as np
import stable_baselines3
import torch
import torch.nn.functional as F
from stable_baselines3.common.buffers import ReplayBuffer
from torch import Tensor, nn, optim

from peers import task
from peers.snake_env import SnakeVector


class QNetwork(nn.Module):
    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        first, second = task.HIDDEN
        self.network = nn.Sequential(
            nn.Linear(observations, first),
            nn.ReLU(),
            nn.Linear(first, second),
            nn.ReLU(),
            nn.Linear(second, actions),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)


def linear_schedule(start: float, end: float, duration: int, t: int) -> float:
    return max((end - start) / duration * t + start, end)


def main() -> None:
    asked = task.arguments()
    window = task.Window(asked.seconds)
    device = torch.device(asked.device)
    envs = SnakeVector(1)
    q_network = QNetwork(11, 3).to(device)
    optimizer = optim.Adam(q_network.parameters(), lr=task.LR)
    target_network = QNetwork(11, 3).to(device)
    target_network.load_state_dict(q_network.state_dict())
    rb = ReplayBuffer(
        task.REPLAY,
        envs.single_observation_space,
        envs.single_action_space,
        device,
        handle_timeout_termination=False,
    )
    scalars: dict[str, float] = {}
    start_time = time.time()
    updates = 0

    obs, _ = envs.reset(seed=0)
    global_step = 0
    while not window.over(global_step, updates):
        epsilon = linear_schedule(task.EPS, task.EPS, task.REPLAY, global_step)
        if random.random() < epsilon:
            actions = np.array([envs.single_action_space.sample() for _ in range(envs.num_envs)])
        else:
            q_values = q_network(torch.Tensor(obs).to(device))
            actions = torch.argmax(q_values, dim=1).cpu().numpy()

        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        real_next_obs = next_obs.copy()
        for i, truncated in enumerate(truncations):
            if truncated:
                real_next_obs[i] = infos["final_obs"][i]
        rb.add(obs, real_next_obs, actions, rewards, terminations, [infos])
        obs = next_obs
        global_step += 1

        if global_step <= task.STARTS:
            continue
        if global_step % task.EVERY == 0:
            data = rb.sample(task.BATCH)
            with torch.no_grad():
                target_max, _ = target_network(data.next_observations).max(dim=1)
                td_target = data.rewards.flatten() + task.GAMMA * target_max * (1 - data.dones.flatten())
            old_val = q_network(data.observations).gather(1, data.actions).squeeze()
            loss = F.mse_loss(td_target, old_val)
            if global_step % 100 == 0:
                scalars["losses/td_loss"] = loss.item()
                scalars["losses/q_values"] = old_val.mean().item()
                scalars["charts/SPS"] = global_step / (time.time() - start_time)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            updates += 1
        if global_step % (task.TARGET_EVERY * task.EVERY) == 0:
            target_network.load_state_dict(q_network.state_dict())

    about = {"envs": 1, "version": f"SB3 {stable_baselines3.__version__}"}
    task.report(window.result(), algorithm="DQN", **about)


if __name__ == "__main__":
    main()
