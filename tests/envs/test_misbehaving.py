"""Environments that misbehave: one sentence, and a run that is saved. `benchmarks/faults.py` has many more."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gym_envs
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_envs import MaskedBandit

import flashdqn
from flashdqn.core.contract import close_env
from flashdqn.core.errors import EnvError
from flashdqn.core.guard import Guard
from flashdqn.core.types import Step
from flashdqn.envs.guarded_env import GuardedEnv
from flashdqn.envs.gymnasium import first_look
from flashdqn.envs.gymnasium.env import GymVecEnv
from flashdqn.show.report import RUN_PAGES

SMALL: dict[str, Any] = {
    "steps": 60,
    "envs": 2,
    "device": "cpu",
    "network.hidden": [8],
    "replay.capacity": 100,
    "learn.batch_size": 8,
    "learn.starts": 10,
    "eval.every": 0,
    "eval.episodes": 2,
    "log.tensorboard": False,
    "runtime.threads": 1,
    "runtime.warmup": False,
    "runtime.mode": "eager",
}


@pytest.fixture(autouse=True)
def _without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(RUN_PAGES):
        monkeypatch.setitem(RUN_PAGES, name, lambda path: None)


class Odd(gym_envs.Walk):
    """Does something odd: `at` says where, and `deed` what."""

    def __init__(self, deed: str = "", at: str = "", count: int = 12) -> None:
        super().__init__(limit=9)
        self.deed, self.place, self.left = deed, at, count
        self._do("make")

    def _do(self, at: str) -> None:
        if at == self.place:
            self.left -= 1
            if self.left <= 0 or at in ("make", "reset", "close"):
                {
                    "exit": sys.exit,
                    "die": lambda: os._exit(0),
                    "hang": lambda: time.sleep(60),
                    "chdir": lambda: os.chdir("/"),
                }[self.deed]()

    def reset(self, **named: Any) -> Any:
        self._do("reset")
        return super().reset(**named)

    def step(self, action: Any) -> Any:
        self._do("step")
        return super().step(action)

    def close(self) -> None:
        self._do("close")


class Answering(gym_envs.Walk):
    """Spoils its steps."""

    spoil: Callable[[Any], Any] = staticmethod(lambda answer: answer)

    def step(self, action: Any) -> Any:
        return type(self).spoil(super().step(action))


def make_odd(**named: Any) -> Odd:
    return Odd(**named)


def make_answering() -> Answering:
    return Answering()


def train_odd(out: Path, vectorization: str, **kwargs: Any) -> flashdqn.Run:
    settings = SMALL | {"env.vectorization": vectorization, "env.kwargs": kwargs, "out": str(out)}
    return flashdqn.train(f"gym:{__name__}:make_odd", progress=False, **settings)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_exit_is_an_error_and_the_run_is_saved(tmp_path: Path, vectorization: str) -> None:
    with pytest.raises(
        EnvError, match=r"make_odd raised SystemExit .in .*test_misbehaving.py, line.*--resume"
    ):
        train_odd(tmp_path, vectorization, deed="exit", at="step")
    (run,) = tmp_path.iterdir()
    summary = json.loads((run / "summary.json").read_text())
    assert summary["finished"] is False
    assert "SystemExit" in summary["stopped"]
    assert list((run / "checkpoints").glob("0*"))


@pytest.mark.parametrize(
    ("at", "said"), [("make", "cannot be made:"), ("reset", "raised"), ("close", "cannot be closed:")]
)
def test_one_that_ends_its_process_at_once(tmp_path: Path, at: str, said: str) -> None:
    """Evaluation plays in the trainer's process, which such an environment would end."""
    with pytest.raises(EnvError, match=f"make_odd {said} its process died: exit code 0"):
        train_odd(tmp_path, "async", deed="die", at=at)


def test_one_that_hangs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_look, "CLOSE_SECONDS", 0.5)
    with pytest.raises(EnvError, match="make_odd cannot be closed: it hangs: in `close`"):
        train_odd(tmp_path, "async", deed="hang", at="close")


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_close_that_exits(tmp_path: Path, vectorization: str) -> None:
    with pytest.raises(EnvError, match=r"make_odd cannot be closed: SystemExit.*complete and saved"):
        train_odd(tmp_path, vectorization, deed="exit", at="close")
    (run,) = tmp_path.iterdir()
    assert json.loads((run / "summary.json").read_text())["finished"] is True


@pytest.mark.parametrize("at", ["make", "step"])
def test_an_environment_may_change_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = train_odd(Path("out"), "sync", deed="chdir", at=at)
    assert Path.cwd() == tmp_path
    assert run.path.parent == Path("out")
    assert (tmp_path / run.path / "summary.json").exists()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda a: None, r"step must return \(obs, reward, .*, and returned None"),
        (lambda a: a[:4], "and returned a tuple of 4"),
        (lambda a: (np.zeros(5), *a[1:]), r"must have the shape \[2\] of its space, and has \[5\]"),
        (lambda a: (None, *a[1:]), r"must be numbers of shape \[2\], and is None"),
        (lambda a: ([[1], [2, 3]], *a[1:]), r"must be numbers of shape \[2\], and is a list of 2"),
        (
            lambda a: (np.array([np.nan, 0.0]), *a[1:]),
            "gave an observation that holds nan .environment 0 of 2",
        ),
        (lambda a: (a[0], None, *a[2:]), "a reward must be one number, and is None"),
        (lambda a: (a[0], "1", *a[2:]), "a reward must be one number, and is the text '1'"),
        (lambda a: (a[0], float("inf"), *a[2:]), "gave a reward that holds inf"),
        (lambda a: (a[0], 1e300, *a[2:]), r"gave a reward that holds 1e\+300"),
        (lambda a: (*a[:2], "no", *a[3:]), "`terminated` must be True or False, and is the text 'no'"),
        (lambda a: (*a[:3], None, a[4]), "`truncated` must be True or False, and is None"),
        (lambda a: (*a[:4], None), "the info of step must be a dict, and is None"),
    ],
)
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_wrong_answer_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Any], Any], said: str, vectorization: str
) -> None:
    monkeypatch.setattr(Answering, "spoil", staticmethod(spoil))
    env = flashdqn.make_env(f"gym:{__name__}:make_answering", 2, vectorization=vectorization, workers=1)
    with pytest.raises(EnvError, match=said):
        env.step(torch.zeros(2, dtype=torch.int64))
    close_env(env)


class Masked(gym_envs.Walk):
    """Gives a mask with every observation; only the second environment's are spoiled."""

    made = 0
    wrong: Any = None

    def __init__(self) -> None:
        super().__init__(limit=9)
        self.spoiled = Masked.made % 2 == 1
        Masked.made += 1

    def reset(self, **named: Any) -> Any:
        obs, _ = super().reset(**named)
        return obs, {"action_mask": np.ones(3, dtype=np.int8)}

    def step(self, action: Any) -> Any:
        answer = super().step(action)
        return (*answer[:4], {"action_mask": self.wrong if self.spoiled else np.ones(3, dtype=np.int8)})


def make_masked() -> Masked:
    return Masked()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (np.ones(5), r"an array of float64 of shape \[5\]"),
        (np.ones((1, 3)), r"an array of float64 of shape \[1, 3\]"),
        (None, "None"),
        ("yes", "the text 'yes'"),
        ([[1], [1, 2]], "a list of 2"),
    ],
)
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_wrong_mask_is_told_with_both_shapes(
    monkeypatch: pytest.MonkeyPatch, wrong: Any, said: str, vectorization: str
) -> None:
    monkeypatch.setattr(Masked, "wrong", wrong)
    monkeypatch.setattr(Masked, "made", 1)  # one is made to look at its spaces
    env = flashdqn.make_env(f"gym:{__name__}:make_masked", 2, vectorization=vectorization, workers=1)
    with pytest.raises(
        EnvError, match=rf"info\['action_mask'\] must have the shape \[3\], .*, and is {said}\."
    ):
        env.step(torch.zeros(2, dtype=torch.int64))
    close_env(env)


@pytest.mark.parametrize("late", [False, True])
def test_a_vector_environment_of_another_shape_is_told_with_both(late: bool) -> None:
    class Wide(SyncVectorEnv):
        def reset(self, **named: Any) -> Any:
            obs, info = super().reset(**named)
            return obs if late else np.zeros((2, 7)), info

        def step(self, action: Any) -> Any:
            return (np.zeros((2, 7)), *super().step(action)[1:])

    vector = Wide([gym_envs.Walk, gym_envs.Walk], autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(
        EnvError, match=r"^wide: a batch of .* the shape \[2, 2\] of its space, and has \[2, 7\]"
    ):
        GymVecEnv(vector, "wide").step(torch.zeros(2, dtype=torch.int64))


def test_infos_may_hold_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answering, "spoil", staticmethod(lambda a: (*a[:4], {"x": lambda: 1})))
    env = flashdqn.make_env(f"gym:{__name__}:make_answering", 2, vectorization="async", workers=1)
    env.step(torch.zeros(2, dtype=torch.int64))
    assert close_env(env) is None


class Spoiled(MaskedBandit):
    """A batched game whose step is spoiled."""

    spoil: Callable[[Step], Any] = staticmethod(lambda step: step)

    def step(self, action: torch.Tensor) -> Any:
        return type(self).spoil(super().step(action))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda step: sys.exit(), "game raised SystemExit"),
        (lambda step: None, "step must return .*, but it returned a NoneType"),
        (lambda step: step._replace(obs=step.obs[:, :0]), "`obs` of a step must be .* but its shape is"),
        (lambda step: step._replace(reward=step.reward.double()), "but its dtype is torch.float64"),
        (lambda step: step._replace(mask=None), "`mask` must be None always or never"),
    ],
)
def test_a_batched_game_is_guarded(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Step], Any], said: str
) -> None:
    monkeypatch.setattr(Spoiled, "spoil", staticmethod(spoil))
    env = GuardedEnv(Spoiled(num_envs=2, time_limit=4), Guard("game", 30.0))
    env.reset(0)
    assert env.mask is not None
    with pytest.raises(EnvError, match=said):
        env.step(env.mask.int().argmax(1))


def test_a_mask_of_another_shape_is_told_before_it_is_used() -> None:
    class Narrow(MaskedBandit):
        @property
        def mask(self) -> torch.Tensor:
            return super().mask[:, :2]

    env = GuardedEnv(Narrow(num_envs=2, time_limit=4), Guard("game", 30.0))
    with pytest.raises(
        EnvError, match=r"`mask` after reset must be .* of shape \[2, 3\] .* its shape is \[2, 2\]"
    ):
        env.reset(0)
