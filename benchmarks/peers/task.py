"""The task that all programs share, and the window that they are measured in.

benchmarks/throughput.py runs each as `python -m peers.NAME --seconds 15 --threads 1` from its own folder (run as a
file, peers/torchrl.py would import itself). Each prints one JSON line: steps, updates, seconds of the window.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, NamedTuple

import torch

LR = 5e-4
GAMMA = 0.99
EPS = 0.05  # constant, so that every policy is asked for its opinion equally often
REPLAY = 100_000
STARTS = 10_000  # transitions before the first gradient step
TARGET_EVERY = 1_000  # gradient steps between copies into the target network

# Of Rainbow (Hessel et al. 2018, at the size of our own preset).
ATOMS, V_MIN, V_MAX = 51, -10.0, 10.0
N_STEP, ALPHA, BETA, NOISE = 3, 0.5, 0.4, 0.5


class Work(NamedTuple):
    """What a program does: environments where it takes several, the network, the batch, transitions per update."""

    envs: int
    hidden: tuple[int, int]
    batch: int
    every: int

    @property
    def ratio(self) -> float:
        """Gradient steps per transition."""
        return 1 / self.every


WORKS = {
    "quarter": Work(8, (256, 256), 64, 4),
    "purejaxrl": Work(10, (120, 84), 128, 10),
    "rainbow": Work(256, (128, 128), 256, 32),
}

# Those of the work that was asked for; `arguments` sets them.
NUM_ENVS, HIDDEN, BATCH, EVERY = WORKS["quarter"]
RATIO = 1 / EVERY

# The window opens when both are behind it, counted from the end of the first update: that is where compilers work.
BURN_IN_SECONDS = 2.0
BURN_IN_UPDATES = 200


def arguments() -> argparse.Namespace:
    """What throughput.py asks of a program; the threads of PyTorch are set here."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0, help="length of the measured window")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch, or of XLA")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--work", choices=WORKS, default="quarter")
    parser.add_argument("--envs", type=int, default=0, help="0: those of the work")
    parser.add_argument("--compile", action="store_true", help="compile the update (TorchRL)")
    parser.add_argument("--game", choices=["snake", "cartpole"], default="snake", help="of ours")
    asked = parser.parse_args()
    use_work(asked.work)
    asked.envs = asked.envs or NUM_ENVS
    torch.set_num_threads(asked.threads)
    return asked


def use_work(name: str) -> None:
    """Set the constants of this module to those of a work."""
    global NUM_ENVS, HIDDEN, BATCH, EVERY, RATIO
    NUM_ENVS, HIDDEN, BATCH, EVERY = WORKS[name]
    RATIO = 1 / EVERY


def synchronize() -> None:
    """Wait for the GPU, where there is one at work."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class Window:
    """Hears after every step or group of steps how far the training is; says when the window is over."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.first: tuple[int, int, float] | None = None  # after the first update
        self.opened: tuple[int, int, float] | None = None
        self.closed: tuple[int, int, float] | None = None

    def over(self, steps: int, updates: int) -> bool:
        """True once the window has been measured."""
        now = time.perf_counter()
        if self.opened is not None:
            if now - self.opened[2] >= self.seconds:
                synchronize()
                self.closed = (steps, updates, time.perf_counter())
        elif self.first is None:
            if updates > 0:
                self.first = (steps, updates, now)
        elif now - self.first[2] >= BURN_IN_SECONDS and updates - self.first[1] >= BURN_IN_UPDATES:
            synchronize()
            self.opened = (steps, updates, time.perf_counter())
        return self.closed is not None

    def result(self) -> dict[str, Any]:
        """Steps, updates and seconds of the window; and all steps since the program began."""
        if self.opened is None or self.closed is None:
            raise SystemExit("The training ended before its measured window did.")
        steps, updates, seconds = (b - a for a, b in zip(self.opened, self.closed, strict=True))
        window = {"steps": steps, "seconds": round(seconds, 4), "updates": updates}
        return window | {"all_steps": self.closed[0]}


def report(result: dict[str, Any], **about: Any) -> None:
    """The one line on standard output; `threads` are those that PyTorch had at the end."""
    print(json.dumps(result | {"batch": BATCH, "threads": torch.get_num_threads()} | about), flush=True)
