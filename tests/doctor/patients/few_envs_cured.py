"""PPO's way of collecting, with an actor and a critic: sixty-four environments, and one call of both networks for
all of them."""

# ruff: noqa: T201, B905, B007
import argparse
import time

import numpy as np
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=120, help="rollouts")
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--envs", type=int, default=64)
parser.add_argument("--steps", type=int, default=8)
args = parser.parse_args()
torch.manual_seed(args.seed)
torch.set_num_threads(1)
torch.set_flush_denormal(True)


class Pendulums:
    """A pole that falls: a few lines of arithmetic a step."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state, self.t = np.zeros(4, np.float32), 0

    def reset(self):
        self.state, self.t = self.rng.normal(0.0, 0.05, 4).astype(np.float32), 0
        return self.state

    def step(self, action):
        x, speed, angle, spin = self.state.tolist()
        push = 1.0 if action else -1.0
        spin += 0.02 * (9.8 * angle - push)
        speed += 0.02 * push
        self.state = np.array([x + 0.02 * speed, speed, angle + 0.02 * spin, spin], np.float32)
        self.t += 1
        return self.state, 1.0, abs(angle) > 0.2 or self.t >= 200, {}


def make_mlp(outputs):
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


actor, critic = make_mlp(2), make_mlp(1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4, fused=True)
envs = [Pendulums(args.seed + number) for number in range(args.envs)]
observations = [env.reset() for env in envs]
coins = np.random.default_rng(args.seed)
updates = 0


def act(rows):
    with torch.no_grad():
        chances = torch.softmax(actor(rows), 1)[:, 1]
        return chances, critic(rows)[:, 0]


start_time = time.perf_counter()
for rollout in range(args.iterations):
    states = np.zeros((args.steps, args.envs, 4), np.float32)
    actions = np.zeros((args.steps, args.envs), np.int64)
    rewards, values = (np.zeros((args.steps, args.envs), np.float32) for _ in range(2))
    for step in range(args.steps):
        flips = coins.random(args.envs)
        chances, guesses = act(torch.from_numpy(np.stack(observations)))
        chosen = (flips < chances.numpy()).astype(np.int64)
        states[step], actions[step], values[step] = np.stack(observations), chosen, guesses.numpy()
        for i, (env, action) in enumerate(zip(envs, chosen.tolist())):
            observations[i], rewards[step, i], done, _ = env.step(action)
            if done:
                observations[i] = env.reset()
    returns = np.flip(np.cumsum(np.flip(rewards, 0), 0), 0).copy() / args.steps
    b_states = torch.from_numpy(states).reshape(-1, 4)
    b_actions = torch.from_numpy(actions).reshape(-1)
    b_returns = torch.from_numpy(returns).reshape(-1)
    for _ in range(4):
        logits = actor(b_states).log_softmax(1).gather(1, b_actions[:, None])[:, 0]
        value = critic(b_states)[:, 0]
        loss = ((value - b_returns) ** 2).mean() - (logits * (b_returns - value.detach())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1

seconds = time.perf_counter() - start_time
transitions = args.iterations * args.steps * args.envs
checksum = sum(parameter.double().abs().sum().item() for parameter in actor.parameters())
print(f"DONE {transitions=} {updates=} {seconds=:.3f} {checksum=:.9f}")
