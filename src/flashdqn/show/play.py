"""A game of a trained agent, move by move: the board, the value of each action, and the chosen action."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from flashdqn.agent.agent import Agent
from flashdqn.core.contract import make_branches
from flashdqn.core.drawing.scene import Scene, scene_to_json
from flashdqn.core.drawing.view import Facts
from flashdqn.core.ops import masked_argmax
from flashdqn.envs.stage import GameStage
from flashdqn.training.evaluate import STEP_LIMIT


@dataclass(frozen=True)
class GameTurn:
    """One moment of a game: the board, and what the agent is about to do."""

    step: int
    scene: Scene
    q: tuple[float, ...]  # by action; empty when the game is over
    mask: tuple[bool, ...] | None  # the legal actions; None if all are legal
    action: int | None  # what the agent does now; None when the game is over
    reward: float  # what the last action earned
    total: float  # all rewards so far
    facts: Facts
    ending: str = ""  # how the game ended
    #: where an action has several parts: which of the values belong to it, one for each part
    parts: tuple[int, ...] = ()

    @property
    def over(self) -> bool:
        """Whether this is the last turn."""
        return self.action is None

    @property
    def chosen(self) -> tuple[int | None, ...]:
        """Which of the values belong to the action."""
        return self.parts or (self.action,)

    def to_json(self) -> dict[str, Any]:
        """The turn as plain data, kept small: it is sent for every move."""
        return {
            "step": self.step,
            "scene": scene_to_json(self.scene),
            "q": [float(f"{value:.5g}") for value in self.q],
            "mask": None if self.mask is None else "".join("01"[legal] for legal in self.mask),
            "action": self.action,
            "reward": round(self.reward, 4),
            "total": round(self.total, 4),
            "facts": [list(fact) for fact in self.facts],
            "ending": self.ending,
            **({"parts": list(self.parts)} if self.parts else {}),
        }


def draw_every_step(step: int) -> bool:
    """Draw every moment."""
    return True


def play_turns(
    agent: Agent,
    stage: GameStage,
    seed: int,
    limit: int = STEP_LIMIT,
    draws: Callable[[int], bool] = draw_every_step,
) -> Iterator[GameTurn]:
    """Every moment of one game on the stage, from the first to the last.

    `draws` says which steps are drawn: the others have an empty scene. The last is always drawn.
    """
    env, view = stage.env, stage.view
    branches = make_branches(env)
    obs, mask = env.reset(seed), env.mask
    reward, total = 0.0, 0.0
    for step in range(limit):
        with torch.no_grad():
            q = agent.q(obs)
        action = masked_argmax(q.to(env.device), None if mask is None else mask.to(env.device), branches)
        parts = () if branches is None else branches.to_entries(branches.to_choices(action))[0].tolist()
        values = tuple(q[0].float().tolist())
        allowed = None if mask is None else tuple(map(bool, mask[0].tolist()))
        scene = view.scene() if draws(step) else ()
        yield GameTurn(
            step, scene, values, allowed, int(action), reward, total, view.facts(), parts=tuple(parts)
        )
        answer = env.step(action.to(env.device))
        obs, mask, reward = answer.obs, answer.mask, float(answer.reward[0])
        total += reward
        truncated = bool(answer.truncated[0])
        if bool(answer.terminated[0]) or truncated:
            outcomes = dict(zip(env.outcome_names, env.outcomes[0].tolist(), strict=True))
            ending = view.ending(outcomes, truncated)
            yield GameTurn(step + 1, view.scene(), (), None, None, reward, total, view.facts(), ending)
            return
    yield GameTurn(limit, view.scene(), (), None, None, reward, total, view.facts(), "cut off: too long")
