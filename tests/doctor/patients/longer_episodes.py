"""DQN on 64 poles on carts, held as tensors; it reports how many episodes it plays in a second."""

# ruff: noqa: T201
import argparse
import copy
import time

import torch
import torch.nn as nn

NUM_ENVS = 64


class Poles:
    """CartPole's equations for all carts at once; an episode ends when the pole falls, or after 500 steps."""

    def reset(self):
        self.state = self.fresh()
        self.age = torch.zeros(NUM_ENVS)
        return self.state

    def fresh(self):
        return torch.rand(NUM_ENVS, 4) * 0.1 - 0.05

    def step(self, actions):
        x, x_dot, theta, theta_dot = self.state.unbind(1)
        force = actions * 20.0 - 10.0
        sine, cosine = theta.sin(), theta.cos()
        push = (force + 0.05 * theta_dot**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        slide = push - 0.05 * turn * cosine / 1.1
        moved = (x + 0.02 * x_dot, x_dot + 0.02 * slide, theta + 0.02 * theta_dot, theta_dot + 0.02 * turn)
        next_state = torch.stack(moved, 1)
        self.age = self.age + 1
        fallen = (next_state[:, 0].abs() > 2.4) | (next_state[:, 2].abs() > 0.2095)
        late = self.age >= 500
        over = fallen | late
        self.state = torch.where(over[:, None], self.fresh(), next_state)
        self.age = torch.where(over, 0.0, self.age)
        return self.state, torch.ones(NUM_ENVS), fallen, late, {"final_state": next_state}


class Replay:
    def __init__(self, steps):
        self.steps, self.written = steps, 0
        self.states, self.next_states = torch.zeros(steps, NUM_ENVS, 4), torch.zeros(steps, NUM_ENVS, 4)
        self.actions = torch.zeros(steps, NUM_ENVS, dtype=torch.long)
        self.rewards, self.fallen = torch.zeros(steps, NUM_ENVS), torch.zeros(steps, NUM_ENVS)

    def remember(self, states, actions, rewards, next_states, fallen):
        row = self.written % self.steps
        self.states[row], self.actions[row], self.rewards[row] = states, actions, rewards
        self.next_states[row], self.fallen[row] = next_states, fallen
        self.written += 1

    def recall(self, count):
        when = torch.randint(0, min(self.written, self.steps), (count,))
        at = when, torch.randint(0, NUM_ENVS, (count,))
        return self.states[at], self.actions[at], self.rewards[at], self.next_states[at], self.fallen[at]


class Agent:
    def __init__(self):
        self.net = nn.Sequential(
            nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)
        )
        self.old_net = copy.deepcopy(self.net)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)
        self.updates = 0

    @torch.no_grad()
    def policy(self, states, epsilon):
        explore = torch.rand(NUM_ENVS) < epsilon
        return torch.where(explore, torch.randint(0, 2, (NUM_ENVS,)), self.net(states).argmax(1))

    def improve(self, states, actions, rewards, next_states, fallen):
        with torch.no_grad():
            best = self.net(next_states).argmax(1, keepdim=True)
            goal = rewards + 0.99 * (1 - fallen) * self.old_net(next_states).gather(1, best)[:, 0]
        loss = nn.functional.smooth_l1_loss(self.net(states).gather(1, actions[:, None])[:, 0], goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % 100 == 0:
            self.old_net.load_state_dict(self.net.state_dict())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=7000)
    iterations = parser.parse_args().iterations
    torch.manual_seed(14)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    env, agent, replay = Poles(), Agent(), Replay(800)
    states, episodes = env.reset(), torch.zeros((), dtype=torch.long)
    start = shown = time.perf_counter()
    for iteration in range(1, iterations + 1):
        actions = agent.policy(states, epsilon=max(0.02, 1 - iteration / 3000))
        following, rewards, fallen, late, info = env.step(actions)
        replay.remember(states, actions, rewards, info["final_state"], fallen)
        states = following
        episodes += (fallen | late).sum()
        for _ in range(2):
            agent.improve(*replay.recall(128))
        now = time.perf_counter()
        if now - shown > 2:
            print(f"{episodes / (now - shown):.1f} episodes/s", flush=True)  # disease
            shown, episodes = now, torch.zeros_like(episodes)
    seconds = time.perf_counter() - start
    checksum = sum(weight.double().abs().sum().item() for weight in agent.net.parameters())
    print(f"DONE transitions={iterations * NUM_ENVS} updates={agent.updates} {seconds=:.3f} {checksum=:.9f}")


if __name__ == "__main__":
    main()
