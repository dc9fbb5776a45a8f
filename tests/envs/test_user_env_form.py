"""Your own game that says something wrong about itself is refused in one sentence, before or while it trains."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from flashdqn import EnvError
from flashdqn.core.types import Step
from flashdqn.envs import ObsSpec, UserEnvConfig, build_env

CPU = torch.device("cpu")


class Game:
    """A game without rules; `wrong` replaces attributes, or what a method returns."""

    name, num_actions, outcome_names, device = "game", 3, ("score",), CPU
    obs_spec = stored_obs_spec = ObsSpec((4,), torch.float32)

    def __init__(self, num_envs: int, **wrong: Any) -> None:
        self.num_envs, self.mask, self.outcomes = num_envs, None, torch.zeros(num_envs, 1)
        self.wrong = wrong
        for name, value in WRONG[wrong.get("kind", "nothing")].items():
            setattr(self, name, value)

    def reset(self, seed: int) -> Tensor:
        return torch.zeros(self.num_envs, 4)

    def step(self, action: Tensor) -> Step:
        if self.wrong.get("kind") == "changed action":
            action.add_(1)
        never = torch.zeros(self.num_envs, dtype=torch.bool)
        obs = torch.zeros(self.num_envs, 4)
        obs = obs.to_sparse() if self.wrong.get("kind") == "sparse" else obs
        return Step(obs, torch.zeros(self.num_envs), never, never, self.mask)

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        pass


WRONG: dict[str, dict[str, Any]] = {
    "nothing": {},
    "changed action": {},
    "sparse": {},
    "no actions": {"num_actions": 0},
    "text for actions": {"num_actions": "3"},
    "more environments": {"num_envs": 5},
    "empty observations": {"obs_spec": ObsSpec((0,), torch.float32)},
    "no specification": {"obs_spec": None},
    "text for a device": {"device": "cpu"},
    "another device": {"device": torch.device("cuda")},
    "numbers for names": {"outcome_names": (1, 2)},
    "no outcomes": {"outcomes": None},
    "wide outcomes": {"outcomes": torch.zeros(4, 3)},
    "wide mask": {"mask": torch.ones(4, 4, dtype=torch.bool)},
    "no legal action": {"mask": torch.zeros(4, 3, dtype=torch.bool)},
    "a number for a decoder": {"decoder": 5},
    "a decoder without a shape": {"decoder": lambda obs: obs},
    "no state": {"state_dict": lambda: None},
    "text in the state": {"state_dict": lambda: {"a": "b"}},
}


def play(kind: str) -> None:
    env = build_env(UserEnvConfig(id=f"{__name__}:Game", kwargs={"kind": kind}), 4, CPU)
    env.reset(0)
    env.step(torch.zeros(4, dtype=torch.int64))
    env.state_dict()


def test_the_game_itself_is_right() -> None:
    play("nothing")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no actions", "`num_actions` must be an int of at least 1, but it is 0"),
        ("text for actions", "`num_actions` must be an int of at least 1, but it is '3'"),
        ("more environments", "was asked for 4 environments, and says `num_envs` 5"),
        ("empty observations", "`obs_spec` must be an ObsSpec with a tuple of positive ints"),
        ("no specification", "`obs_spec` must be an ObsSpec"),
        ("text for a device", "`device` must be a torch.device"),
        ("another device", "must play on cpu, and says `device` cuda"),
        ("numbers for names", "`outcome_names` must be a tuple of strings"),
        ("no outcomes", "`outcomes` must be a tensor"),
        ("wide outcomes", r"`outcomes` after reset .* its shape is \[4, 3\]"),
        ("wide mask", r"`mask` after reset .* its shape is \[4, 4\]"),
        ("no legal action", "environment 0 has none"),
        ("a number for a decoder", "`decoder` must be None, or a function .* but it is 5"),
        ("a decoder without a shape", "`decoder` must be None, or a function with a tuple"),
        ("no state", "state_dict must return a flat dict .* returned a NoneType"),
        ("text in the state", "'a' holds a str"),
        ("changed action", "must leave the caller's action tensor alone"),
        ("sparse", "its layout is torch.sparse_coo"),
    ],
)
def test_a_wrong_one_is_refused(kind: str, said: str) -> None:
    with pytest.raises(EnvError, match=said):
        play(kind)
