"""DQN on eight CartPoles through Gymnasium's vector interface; it says how fast it is."""

# ruff: noqa: T201
import argparse
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=15_000, help="steps of all environments together")
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--gamma", type=float, default=0.99)
    return parser.parse_args()


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 128)
        self.fc2 = nn.Linear(128, 128)
        self.fc3 = nn.Linear(128, 2)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class ReplayBuffer:
    def __init__(self, steps, num_envs):
        self.steps, self.num_envs, self.total = steps, num_envs, 0
        self.obs = np.zeros((steps, num_envs, 4), dtype=np.float32)
        self.next_obs = np.zeros((steps, num_envs, 4), dtype=np.float32)
        self.actions = np.zeros((steps, num_envs), dtype=np.int64)
        self.rewards = np.zeros((steps, num_envs), dtype=np.float32)
        self.terminations = np.zeros((steps, num_envs), dtype=np.float32)

    def add(self, obs, next_obs, actions, rewards, terminations):
        row = self.total % self.steps
        self.obs[row], self.next_obs[row], self.actions[row] = obs, next_obs, actions
        self.rewards[row], self.terminations[row] = rewards, terminations
        self.total += 1

    def sample(self, rng, size):
        at = rng.integers(0, min(self.total, self.steps), size), rng.integers(0, self.num_envs, size)
        columns = (self.obs, self.next_obs, self.actions, self.rewards, self.terminations)
        return [torch.from_numpy(column[at]) for column in columns]


if __name__ == "__main__":
    args = parse_args()
    torch.manual_seed(13)
    rng = np.random.default_rng(13)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    # A pole that has fallen starts anew in the same step: no transition leads from one episode to the next.
    options = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    envs = gym.make_vec(
        "CartPole-v1", num_envs=args.num_envs, vectorization_mode="sync", vector_kwargs=options
    )
    q_network, target_network = QNetwork(), QNetwork()
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate, fused=True)
    rb = ReplayBuffer(2000, args.num_envs)
    obs, _ = envs.reset(seed=13)
    global_step, updates = 0, 0
    start_time = last_print = time.perf_counter()
    for iteration in range(args.iterations):
        with torch.no_grad():
            actions = q_network(torch.from_numpy(obs)).argmax(dim=1).numpy()
        explore = rng.random(args.num_envs) < max(0.05, 1 - iteration / 2000)
        actions = np.where(explore, rng.integers(0, 2, args.num_envs), actions)
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        global_step += args.num_envs
        rb.add(obs, next_obs, actions, rewards, terminations)
        obs = next_obs

        data_obs, data_next_obs, data_actions, data_rewards, data_ends = rb.sample(rng, args.batch_size)
        with torch.no_grad():
            target = data_rewards + args.gamma * (1 - data_ends) * target_network(data_next_obs).amax(1)
        loss = F.mse_loss(q_network(data_obs).gather(1, data_actions[:, None])[:, 0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
        if iteration % 200 == 0:
            target_network.load_state_dict(q_network.state_dict())

        now = time.perf_counter()
        if now - last_print > 2:
            last_print = now
            steps_per_second = global_step / (now - start_time)
            print(f"global_step={global_step} speed={steps_per_second:.0f} steps/s", flush=True)
    seconds = time.perf_counter() - start_time
    checksum = sum(p.double().abs().sum().item() for p in q_network.parameters())
    envs.close()
    print(f"DONE transitions={global_step} {updates=} {seconds=:.3f} {checksum=:.9f}")
