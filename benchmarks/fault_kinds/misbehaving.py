"""Environments that misbehave. `MISBEHAVE=deed,moment,count` says what one does, where, and in which call.

`Misbehaving` is a Gymnasium environment, `MisbehavingGame` a batched game of our own contract. A deed is a function
in `DEEDS`, done in the middle of a call, or in `ANSWERS`, which spoils what a step returns.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from flashdqn.core.contract import ObsSpec
from flashdqn.core.types import Step


class UnprintableError(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class UnpicklableError(Exception):
    """Holds what cannot be pickled, and takes arguments that no copy would get."""

    def __init__(self, one: int, *, lock: Any) -> None:
        super().__init__("cannot be pickled")
        self.one, self.lock = one, lock


class Foreign(BaseException):
    """Not an `Exception`."""


def fail(error: BaseException) -> None:
    raise error


def recurse(depth: int = 0) -> int:
    return recurse(depth + 1) + 1


def close_streams() -> None:
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.close(number)


def close_output() -> None:
    sys.stdout = sys.stderr = None  # type: ignore[assignment]


def fork_child() -> None:
    if os.fork() == 0:
        time.sleep(3.0)
        os._exit(0)


def start_thread() -> None:
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()


def limit_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))


def take_signals() -> None:
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)


def seed_everything() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def stop_clock() -> None:
    time.time = lambda: 0.0
    time.monotonic = lambda: 0.0


def change_torch() -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)


def spin() -> None:
    while True:
        pass


def spin_in_c() -> None:
    """A loop in compiled code that holds no lock of Python's: no signal handler of Python's runs in it."""
    import numba

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
    def forever(x: int) -> int:
        while x >= 0:
            x = (x + 1) & 1023
        return x

    forever(1)


def spin_with_lock() -> None:
    """The same, with the lock: no other thread of Python's runs either."""
    import numba

    @numba.njit  # type: ignore[untyped-decorator,unused-ignore]
    def forever(x: int) -> int:
        while x >= 0:
            x = (x + 1) & 1023
        return x

    forever(1)


#: What ends in one sentence and exit code 1, whatever it was called in.
DEEDS: Mapping[str, Callable[[], object]] = {
    "exit 0": lambda: sys.exit(0),
    "exit text": lambda: sys.exit("bye"),
    "exit none": lambda: fail(SystemExit()),
    "keyboard interrupt": lambda: fail(KeyboardInterrupt()),
    "generator exit": lambda: fail(GeneratorExit()),
    "foreign": lambda: fail(Foreign("not an Exception")),
    "unprintable": lambda: fail(UnprintableError()),
    "unpicklable": lambda: fail(UnpicklableError(1, lock=threading.Lock())),
    "long text": lambda: fail(ValueError("x" * 1_000_000)),
    "many lines": lambda: fail(ValueError("one\ntwo\r\nthree\n" * 50)),
    "escape codes": lambda: fail(ValueError("\x1b[2J\x1b]0;title\x07\x9b31m red \u202e")),
    "surrogates": lambda: fail(ValueError("\ud800 [bold]markup[/]")),
    "recursion": recurse,
    "memory": lambda: fail(MemoryError()),
    "much memory": lambda: bytearray(1 << 60),
    "stop iteration": lambda: next(iter(())),
    "broken pipe": lambda: fail(BrokenPipeError(32, "Broken pipe")),
    "end of file": lambda: fail(EOFError()),
    "timeout": lambda: fail(TimeoutError("slow")),
    "import": lambda: __import__("no_such_module_at_all"),
    "module without a file": lambda: exec("raise ValueError('from exec')"),
    "group": lambda: fail(ExceptionGroup("two", [ValueError("a"), KeyError("b")])),
    "warning as error": lambda: fail(UserWarning("a warning")),
    "assertion": lambda: fail(AssertionError()),
}
#: The same, but these wait for a timeout.
HANGS: Mapping[str, Callable[[], object]] = {
    "sleep": lambda: time.sleep(1e6),
    "spin": spin,
    "wait for a lock": lambda: threading.Event().wait(),
    "read a pipe": lambda: os.read(os.pipe()[0], 1),
    "sleep in C": lambda: ctypes.CDLL(None).sleep(100_000),
    "spin in C": spin_in_c,
}
#: What only a worker process survives.
DEATHS: Mapping[str, Callable[[], object]] = {
    "os exit": lambda: os._exit(0),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segmentation fault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "spin in C with the lock": spin_with_lock,
}
#: What harms nobody: training goes on, and exit code 0.
HARMLESS: Mapping[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "chdir": lambda: os.chdir("/"),
    "seeds": seed_everything,
    "thread": start_thread,
    "fork": fork_child,
    "close streams": close_streams,
    "no output": close_output,
    "signal handlers": take_signals,
    "warnings are errors": lambda: warnings.simplefilter("error"),
    "numpy raises": lambda: np.seterr(all="raise"),
    "torch settings": change_torch,
    "clock": stop_clock,
    "much printing": lambda: print("x" * 100_000),
    "read stdin": lambda: sys.stdin.read(),
    "few files": limit_files,
    "recursion limit": lambda: sys.setrecursionlimit(150),
    "environment variables": os.environ.clear,
}


def with_info(answer: Any, info: Any) -> Any:
    return (*answer[:4], info)


#: What a step returns instead; exit code 1.
ANSWERS: Mapping[str, Callable[[Any], Any]] = {
    "None": lambda a: None,
    "four values": lambda a: a[:4],
    "six values": lambda a: (*a, 1),
    "obs None": lambda a: (None, *a[1:]),
    "obs text": lambda a: ("text", *a[1:]),
    "obs wider": lambda a: (np.zeros(5, np.float32), *a[1:]),
    "obs narrower": lambda a: (np.zeros(1, np.float32), *a[1:]),
    "obs scalar": lambda a: (np.float32(0), *a[1:]),
    "obs empty": lambda a: (np.zeros(0, np.float32), *a[1:]),
    "obs ragged": lambda a: ([[1], [2, 3]], *a[1:]),
    "obs NaN": lambda a: (np.array([np.nan, 0], np.float32), *a[1:]),
    "obs infinite": lambda a: (np.array([0, np.inf], np.float32), *a[1:]),
    "obs complex": lambda a: (np.array([0, 1j]), *a[1:]),
    "reward NaN": lambda a: (a[0], float("nan"), *a[2:]),
    "reward infinite": lambda a: (a[0], float("-inf"), *a[2:]),
    "reward None": lambda a: (a[0], None, *a[2:]),
    "reward text": lambda a: (a[0], "much", *a[2:]),
    "reward of two": lambda a: (a[0], np.ones(2), *a[2:]),
    "reward too large": lambda a: (a[0], 1e300, *a[2:]),
    "terminated text": lambda a: (*a[:2], "no", *a[3:]),
    "terminated None": lambda a: (*a[:2], None, *a[3:]),
    "terminated NaN": lambda a: (*a[:2], float("nan"), *a[3:]),
    "terminated of two": lambda a: (*a[:2], np.array([True, False]), *a[3:]),
    "truncated text": lambda a: (*a[:3], "no", a[4]),
    "info None": lambda a: with_info(a, None),
    "info list": lambda a: with_info(a, [1]),
    "info text": lambda a: with_info(a, "info"),
    "mask all false": lambda a: with_info(a, {"action_mask": np.zeros(3, np.int8)}),
    "mask too wide": lambda a: with_info(a, {"action_mask": np.ones(7, np.int8)}),
    "mask None": lambda a: with_info(a, {"action_mask": None}),
    "mask text": lambda a: with_info(a, {"action_mask": "111"}),
    "mask gone": lambda a: with_info(a, {}),
    "generator": lambda a: (x for x in a),
}
#: Of these, what a reset may return: Gymnasium itself takes two answers out of anything that has two.
FINE_RESETS = ("generator",)
#: What a step may return besides the usual; exit code 0.
FINE_ANSWERS: Mapping[str, Callable[[Any], Any]] = {
    "list": lambda a: list(a),
    "reward array of one": lambda a: (a[0], np.array([1.0]), *a[2:]),
    "reward integer": lambda a: (a[0], 1, *a[2:]),
    "flags of numpy": lambda a: (*a[:2], np.bool_(a[2]), np.bool_(a[3]), a[4]),
    "flags as integers": lambda a: (*a[:2], int(a[2]), int(a[3]), a[4]),
    "obs float64": lambda a: (np.zeros(2, np.float64), *a[1:]),
    "obs list": lambda a: ([0.0, 1.0], *a[1:]),
    "info unpicklable": lambda a: with_info(a, a[4] | {"lock": threading.Lock()}),
    "info with None": lambda a: with_info(a, a[4] | {"x": None}),
    "info changing": lambda a: with_info(a, a[4] | {"x": random.choice([1, "a", None, [1], {}])}),
}


def read_order() -> tuple[str, str, int]:
    """What to do, at which moment, in which call of it."""
    deed, moment, count = os.environ.get("MISBEHAVE", "nothing,step,1").rsplit(",", 2)
    return deed, moment, int(count)


#: At import, so that an environment that clears its variables keeps its order.
ORDER = read_order()


class Deeds:
    """Does the deed in the right call."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("import", "make", "reset", "step", "render", "close"), 0)

    def at(self, moment: str) -> bool:
        """Do what was ordered for this call; True: the answer is to be spoiled."""
        deed, when, count = ORDER
        self.counts[moment] += 1
        if moment != when or self.counts[moment] < count:
            return False
        for deeds in (DEEDS, HANGS, DEATHS):
            if deed in deeds:
                deeds[deed]()
        if deed in HARMLESS and self.counts[moment] == count:
            HARMLESS[deed]()
        return any(deed in globals().get(name, {}) for name in ("ANSWERS", "FINE_ANSWERS", "GAME_ANSWERS"))


Deeds().at("import")


class Misbehaving(gymnasium.Env[Any, Any]):
    """A walk of nine steps with legal actions, until it misbehaves."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.observation_space = spaces.Box(-1.0, 100.0, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.render_mode, self.deeds, self.time = render_mode, Deeds(), 0
        self.deeds.at("make")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        spoiled = self.deeds.at("reset")
        answer = self._observe(), self._info()
        if not spoiled:
            return answer
        obs, *_, info = (ANSWERS | FINE_ANSWERS)[ORDER[0]]((answer[0], 0.0, False, False, answer[1]))
        return obs, info

    def step(self, action: Any) -> Any:
        self.time += 1
        spoiled = self.deeds.at("step")
        answer = self._observe(), 1.0, False, self.time >= 9, self._info()
        return (ANSWERS | FINE_ANSWERS)[ORDER[0]](answer) if spoiled else answer

    def render(self) -> Any:
        self.deeds.at("render")
        return np.zeros((8, 8, 3), np.uint8)

    def close(self) -> None:
        self.deeds.at("close")

    def _observe(self) -> Any:
        return np.array([self.time, -1], dtype=np.float32)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.ones(3, dtype=np.int8)}


class MisbehavingGame:
    """The same as a batched game."""

    name = "misbehaving"
    outcome_names = ("score",)
    mask = None

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.num_actions, self.device = num_envs, 3, torch.device("cpu")
        self.obs_spec, self.deeds = ObsSpec((2,), torch.float32), Deeds()
        self.time = torch.zeros(num_envs)
        self.outcomes = torch.ones((num_envs, 1))
        self.deeds.at("make")

    def reset(self, seed: int) -> Any:
        self.time.zero_()
        self.deeds.at("reset")
        return self._observe()

    def step(self, action: Any) -> Any:
        over = self.time >= 9
        self.time = torch.where(over, 0.0, self.time + 1)
        never = torch.zeros(self.num_envs, dtype=torch.bool)
        answer: Any = Step(self._observe(), torch.where(over, 0.0, 1.0), never, self.time >= 9, None)
        if self.deeds.at("step"):
            return GAME_ANSWERS[ORDER[0]](answer)
        return answer

    def state_dict(self) -> dict[str, Any]:
        return {"time": self.time.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.time.copy_(state["time"])

    def close(self) -> None:
        self.deeds.at("close")

    def _observe(self) -> Any:
        return torch.stack((self.time, -torch.ones_like(self.time)), 1)


def spoil(**changes: Callable[[torch.Tensor], Any]) -> Callable[[Step], Any]:
    """Change some parts of a step."""
    return lambda step: step._replace(
        **{name: change(getattr(step, name)) for name, change in changes.items()}
    )


#: As ANSWERS, for the batched game.
GAME_ANSWERS: Mapping[str, Callable[[Step], Any]] = {
    "None": lambda a: None,
    "four values": lambda a: tuple(a)[:4],
    "obs None": spoil(obs=lambda x: None),
    "obs text": spoil(obs=lambda x: "text"),
    "obs wider": spoil(obs=lambda x: torch.zeros(len(x), 5)),
    "obs narrower": spoil(obs=lambda x: x[:, :1]),
    "obs scalar": spoil(obs=lambda x: x[0, 0]),
    "obs NaN": spoil(obs=lambda x: x * float("nan")),
    "obs infinite": spoil(obs=lambda x: x + float("inf")),
    "obs float64": spoil(obs=lambda x: x.double()),
    "reward NaN": spoil(reward=lambda x: x * float("nan")),
    "reward None": spoil(reward=lambda x: None),
    "reward of two": spoil(reward=lambda x: torch.zeros(2)),
    "terminated None": spoil(terminated=lambda x: None),
    "terminated as numbers": spoil(terminated=lambda x: x.float()),
    "mask new": spoil(mask=lambda x: torch.ones(2, 7, dtype=torch.bool)),
}
