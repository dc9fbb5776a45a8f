"""A loop in LeanRL's style, written from its description: CleanRL's loop, with everything small made large.

The update and the policy are compiled by torch.compile, and on CUDA each is recorded once as a CUDA graph and
replayed; the replay lies on the device, and nothing is read back but the actions. LeanRL takes its graphs and its
replay from tensordict and TorchRL; here they are written out, so that it needs PyTorch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peers import task
from peers.snake_env import SnakeVector

OBSERVATIONS, ACTIONS = 11, 3


class Replay:
    """Transitions on the device, in a ring; batches are drawn there, too."""

    def __init__(self, device: torch.device) -> None:
        self.obs, self.next_obs = (torch.zeros(task.REPLAY, OBSERVATIONS, device=device) for _ in range(2))
        self.action = torch.zeros(task.REPLAY, dtype=torch.int64, device=device)
        self.reward, self.going_on = (torch.zeros(task.REPLAY, device=device) for _ in range(2))
        self.size = torch.zeros((), dtype=torch.int64, device=device)
        self.steps = 0

    def add(self, obs: Tensor, next_obs: Tensor, action: Tensor, rest: Tensor) -> None:
        """Append a step of all environments; `rest` is reward and whether the episode goes on, [2, N]."""
        first = self.steps % task.REPLAY
        rows = slice(first, first + len(obs))
        self.obs[rows], self.next_obs[rows], self.action[rows] = obs, next_obs, action
        self.reward[rows], self.going_on[rows] = rest[0], rest[1]
        self.steps += len(obs)
        self.size.fill_(min(self.steps, task.REPLAY))


def record_graph(work: Callable[[], Any], cuda: bool) -> Callable[[], Any]:
    """Run it a few times, and on CUDA record it as a graph; returns what runs it."""
    if not cuda:
        return work
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def make_network(device: torch.device) -> nn.Sequential:
    first, second = task.HIDDEN
    layers = [nn.Linear(OBSERVATIONS, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(second, ACTIONS)).to(device)


def main() -> None:
    asked = task.arguments()
    window, device = task.Window(asked.seconds), torch.device(asked.device)
    cuda = device.type == "cuda"
    assert task.REPLAY % asked.envs == 0
    envs, replay = SnakeVector(asked.envs), Replay(device)
    online, target = make_network(device), make_network(device)
    target.load_state_dict(online.state_dict())
    rate = torch.tensor(task.LR, device=device) if cuda else task.LR
    optimizer = torch.optim.Adam(online.parameters(), lr=rate, capturable=cuda, fused=cuda)
    seen = torch.zeros(asked.envs, OBSERVATIONS, device=device)
    chosen = torch.zeros(asked.envs, dtype=torch.int64, device=device)

    @torch.compile
    def compute_loss(
        obs: Tensor, action: Tensor, reward: Tensor, going_on: Tensor, next_obs: Tensor
    ) -> Tensor:
        with torch.no_grad():
            value = reward + task.GAMMA * going_on * target(next_obs).amax(1)
        return F.mse_loss(online(obs).gather(1, action[:, None])[:, 0], value)

    @torch.compile
    def choose() -> Tensor:
        greedy = online(seen).argmax(1)
        luck = torch.rand(2, asked.envs, device=device)
        return torch.where(luck[0] < task.EPS, (luck[1] * ACTIONS).long(), greedy)

    def update() -> None:
        rows = (torch.rand(task.BATCH, device=device) * replay.size).long()
        columns = replay.obs[rows], replay.action[rows], replay.reward[rows], replay.going_on[rows]
        optimizer.zero_grad(set_to_none=not cuda)
        compute_loss(*columns, replay.next_obs[rows]).backward()
        optimizer.step()

    def act() -> None:
        with torch.no_grad():
            chosen.copy_(choose())

    policy: Callable[[], Any] = record_graph(act, cuda)
    learn: Callable[[], Any] | None = None
    obs, _ = envs.reset(seed=0)
    steps = updates = 0
    while not window.over(steps, updates):
        seen.copy_(torch.from_numpy(obs))
        policy()
        action = chosen.cpu().numpy()
        next_obs, reward, terminated, truncated, infos = envs.step(action)
        last = infos["final_obs"] if (terminated | truncated).any() else next_obs
        rest = torch.from_numpy(np.stack([reward, 1.0 - terminated.astype(np.float32)]).astype(np.float32))
        replay.add(seen, torch.from_numpy(last).to(device), chosen, rest.to(device))
        obs, steps = next_obs, steps + asked.envs
        while steps > task.STARTS and updates < (steps - task.STARTS) // task.EVERY:
            learn = learn or record_graph(update, cuda)
            learn()
            updates += 1
            if updates % task.TARGET_EVERY == 0:
                target.load_state_dict(online.state_dict())
    task.report(window.result(), algorithm="DQN", envs=asked.envs, version=f"torch {torch.__version__}")


if __name__ == "__main__":
    main()
