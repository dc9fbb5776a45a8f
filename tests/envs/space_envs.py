"""Small Gymnasium environments with many kinds of spaces, whose best scores are known: `gym:space_envs:Knobs`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 4


class Game(gymnasium.Env[Any, Any]):
    """An episode of `STEPS` steps; every observation says what to do, and a step earns from 0 to 1."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        self.draw()
        return self.look(), self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        reward = self.judge(action)
        self.time += 1
        self.draw()
        return self.look(), reward, self.time >= STEPS, False, self.info()

    def draw(self) -> None:
        raise NotImplementedError

    def look(self) -> Any:
        raise NotImplementedError

    def judge(self, action: Any) -> float:
        raise NotImplementedError

    def info(self) -> dict[str, Any]:
        return {}


class Knobs(Game):
    """Turn each knob to the position that is shown. With `masked` "tuple" or "flat", one wrong position of each is
    illegal, and with `far` the numbers of the second knob start there."""

    sizes = (3, 4, 2)

    def __init__(self, masked: str = "", far: int = 0) -> None:
        self.masked = masked
        self.starts = np.array([0, far, 0])
        self.action_space = spaces.MultiDiscrete(self.sizes, start=self.starts)
        self.observation_space = spaces.MultiDiscrete(self.sizes)

    def draw(self) -> None:
        self.wanted = np.array([self.np_random.integers(n) for n in self.sizes])

    def look(self) -> Any:
        return self.wanted

    def judge(self, action: Any) -> float:
        choice = np.asarray(action) - self.starts
        if self.masked:
            for mask, one in zip(self.list_masks(), choice, strict=True):
                assert mask[one], "an illegal action"
        return float((choice == self.wanted).mean())

    def list_masks(self) -> list[Any]:
        masks = [np.ones(n, dtype=np.int8) for n in self.sizes]
        for mask, right in zip(masks, self.wanted, strict=True):
            mask[(right + 1) % len(mask)] = 0
        return masks

    def info(self) -> dict[str, Any]:
        if not self.masked:
            return {}
        masks = self.list_masks()
        return {"action_mask": tuple(masks) if self.masked == "tuple" else np.concatenate(masks)}


class Switches(Game):
    """Set each switch as shown."""

    def __init__(self, count: int = 5) -> None:
        self.action_space = spaces.MultiBinary(count)
        self.observation_space = spaces.MultiBinary(count)

    def draw(self) -> None:
        self.wanted = self.np_random.integers(2, size=self.action_space.shape).astype(np.int8)

    def look(self) -> Any:
        return self.wanted

    def judge(self, action: Any) -> float:
        return float((action == self.wanted).mean())


class Throttle(Game):
    """Hit the number that is shown, in each dimension."""

    def __init__(self, count: int = 1, bound: float = 2.0) -> None:
        self.action_space = spaces.Box(-bound, bound, (count,), np.float32)
        self.observation_space = spaces.Box(-2.0, 2.0, (count,), np.float32)

    def draw(self) -> None:
        self.wanted = self.np_random.choice([-2.0, 0.0, 2.0], self.observation_space.shape).astype(np.float32)

    def look(self) -> Any:
        return self.wanted

    def judge(self, action: Any) -> float:
        return float(1 - np.abs(action - self.wanted).mean() / 4)


class Camera(Game):
    """Find the bright column of a small picture, in the half that a number names; a vector only disturbs."""

    def __init__(self, tall: int = 8, kind: str = "uint8", extra: int = 2) -> None:
        top = 255 if kind == "uint8" else 1.0
        picture = spaces.Box(0, top, (tall, 8, 3), np.dtype(kind).type)
        self.observation_space = spaces.Dict(
            {
                "camera": picture,
                "inner": spaces.Dict(
                    {"half": spaces.Discrete(extra), "noise": spaces.Box(-1.0, 1.0, (3,), np.float32)}
                ),
                "pair": spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([3, 2]))),
            }
        )
        self.action_space = spaces.Discrete(4)

    def draw(self) -> None:
        self.columns = self.np_random.integers(4, size=2)
        self.half = int(self.np_random.integers(2))
        sample = self.np_random.random(3)
        self.rest = (
            (2 * sample - 1).astype(np.float32),
            self.np_random.integers(2, size=2).astype(np.int8),
            np.array([self.np_random.integers(3), self.np_random.integers(2)]),
        )

    def look(self) -> Any:
        space = self.observation_space["camera"]
        picture = np.zeros(space.shape, space.dtype)
        for half, column in enumerate(self.columns):
            picture[:, 4 * half + column, half] = space.high.max()
        noise, bits, numbers = self.rest
        return {"camera": picture, "inner": {"half": self.half, "noise": noise}, "pair": (bits, numbers)}

    def judge(self, action: Any) -> float:
        return float(action == self.columns[self.half])


class Odd(Game):
    """Spaces that cannot be used."""

    def __init__(self, which: str) -> None:
        self.observation_space, self.action_space = {
            "graph": (spaces.Graph(spaces.Box(0, 1), None), spaces.Discrete(2)),
            "sequence": (spaces.Sequence(spaces.Discrete(2)), spaces.Discrete(2)),
            "tuple action": (spaces.Box(0, 1), spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3)))),
            "endless action": (spaces.Box(0, 1), spaces.Box(-np.inf, np.inf, (2,), np.float32)),
            "many actions": (spaces.Box(0, 1), spaces.MultiBinary(100)),
        }[which]

    def draw(self) -> None:
        pass

    def look(self) -> Any:
        return self.observation_space.sample()
