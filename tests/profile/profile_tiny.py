"""A training so small that a profile of it takes a second, and trainings that only pretend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashdqn import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.profile.ready import TurnResult
from flashdqn.profile.result import Outcome, RoundSpread

TINY: dict[str, Any] = {
    "steps": 4000,
    "envs": 16,
    "device": "cpu",
    "env.size": 6,
    "network.hidden": [16],
    "replay.capacity": 2000,
    "learn.batch_size": 32,
    "learn.starts": 200,
    "learn.target_every": 20,
    "train_ratio": 0.125,
    "eval.episodes": 4,
    "log.tensorboard": False,
    "runtime.warmup": False,
}


def tiny(preset: str = "snake-flood", **changes: Any) -> Config:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return apply_settings(base_config(preset), TINY | named)


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Pretended:
    """A training with given rates, round by round."""

    threads = (1, 2)
    mode = "native"

    def __init__(self, time: Time, rates: Sequence[float], ratio: float = 0.125) -> None:
        self.time, self.rates, self.ratio_asked = time, list(rates), ratio
        self.closed = False
        self.asked: list[float] = []

    def turn(self, seconds: float) -> TurnResult:
        self.asked.append(seconds)
        rate = self.rates[(len(self.asked) - 1) % len(self.rates)]
        self.time.now += seconds
        transitions = round(rate * 1000)
        return TurnResult(transitions, round(transitions * self.ratio_asked), 1000.0, 1)

    def close(self) -> None:
        self.closed = True


class Told:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.turns: list[tuple[int, str]] = []
        self.prepared: list[str] = []
        self.ended = False

    def note(self, text: str) -> None:
        self.notes.append(text)

    def preparing(self, name: str, number: int, total: int, left: float) -> None:
        self.prepared.append(name)

    def turn(self, name: str, round_: int, rounds: int, left: float) -> None:
        self.turns.append((round_, name))

    def end(self) -> None:
        self.ended = True


def outcome(name: str, speed: tuple[float, float, float], **changes: Any) -> Outcome:
    """An outcome with a speed-up of median, lowest and highest."""
    values: dict[str, Any] = {
        "name": name,
        "group": name.partition("-")[0],
        "settings": {},
        "flags": f"--{name}",
        "role": "same",
        "learning": "same learning",
        "verdict": "faster" if speed[1] > 1 else "slower" if speed[2] < 1 else "no difference",
        "speed_up": RoundSpread(*speed),
        "transitions_per_second": RoundSpread(100.0, 90.0, 110.0),
        "updates_per_second": 12.5,
        "ratio_asked": 0.125,
        "ratio_done": 0.125,
        "relative_ratio": 1.0,
        "mode": "native",
        "threads": (1, 2),
        "rounds": 5,
        "remark": "",
    }
    return Outcome(**values | changes)
