"""Real observations, from games that the agent itself plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from flashdqn.agent.agent import Agent
from flashdqn.agent.onnx import Array
from flashdqn.core.contract import close_env
from flashdqn.envs import build_evaluation_env

#: Few boards and many steps each: late positions of long games must be among them.
BOARDS = 16


@dataclass(frozen=True)
class Observations:
    """Observations [N, …] as they are stored, and their legal actions [N, A] if the task has any."""

    obs: Array
    mask: Array | None
    #: turns what is stored into what the network reads, if a task has a decoder
    decode: Callable[[Array], Array] | None = None

    def __len__(self) -> int:
        return len(self.obs)

    def part(self, rows: slice) -> Observations:
        """A slice of the observations."""
        return Observations(self.obs[rows], None if self.mask is None else self.mask[rows], self.decode)

    def read(self) -> Array:
        """The network's input. Decoded planes can be a hundred times as large, so take a part at a time."""
        return self.obs if self.decode is None else self.decode(self.obs)

    def inputs(self) -> dict[str, Array]:
        """The inputs of the exported graph."""
        return {"obs": self.read()} | ({} if self.mask is None else {"mask": self.mask})


@torch.no_grad()
def collect_observations(agent: Agent, count: int, seed: int, boards: int = BOARDS) -> Observations:
    """At least `count` observations in which the agent had to act, from its own games."""
    env = build_evaluation_env(agent.config.env, boards, torch.device("cpu"))
    try:
        obs, mask = env.reset(seed), env.mask
        over = torch.zeros(boards, dtype=torch.bool)
        seen: list[Array] = []
        legal: list[Array] = []
        while sum(map(len, seen)) < count:
            acting = (~over).numpy()  # after an end the action is ignored
            seen.append(obs.numpy()[acting].copy())
            if mask is not None:
                legal.append(mask.numpy()[acting].copy())
            own = None if mask is None else mask.to(agent.device)
            step = env.step(agent.act(obs.to(agent.device), own).cpu())
            obs, mask, over = step.obs, step.mask, step.terminated | step.truncated
        masks = np.concatenate(legal) if legal else None
        return Observations(np.concatenate(seen), masks, make_array_decoder(agent.network))
    finally:
        close_env(env)


def make_array_decoder(network: nn.Module) -> Callable[[Array], Array] | None:
    """A network's decoder for arrays; None if it has none."""
    decoder = getattr(network, "decoder", None)
    if decoder is None:
        return None
    return lambda obs: decoder(torch.from_numpy(obs)).numpy()
