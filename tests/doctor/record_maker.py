"""Records made by hand: what the watch would have written, without a script that ran."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.record import read_record
from flashdqn.doctor.watch.kinds import Owner, Phase
from flashdqn.doctor.watch.rows import Frame
from flashdqn.doctor.watch.schema import WatchRecord

LIBRARIES = "/usr/lib/python3.11/site-packages"


def stand_in(phase: Phase | None) -> Frame:
    """A frame of the watch itself."""
    return Frame("/anywhere/watch/hooks.py", "anything", 1, Owner.WATCH, phase)


def library(path: str, name: str = "f") -> Frame:
    """A frame of some library."""
    return Frame(f"{LIBRARIES}/{path}", name, 1, Owner.PLUMBING)


def standard(path: str, name: str = "f") -> Frame:
    """A frame of Python's own library."""
    return Frame(f"/usr/lib/python3.11/{path}", name, 1, Owner.PLUMBING)


class Maker:
    """Add what was seen, then ask for the evidence."""

    def __init__(self, script: Path, **raw: Any) -> None:
        self.script = str(script)
        self.frames: list[Frame] = []
        self.stacks: list[list[int]] = []
        self.raw: dict[str, Any] = {
            "script": self.script, "arguments": [], "ended": "stopped", "error": "", "code": 0, "python": "3.11.7",
            "torch": "2.13.0", "jax": False, "device": "cpu", "cores": 4, "threads": 1, "training_began": 0.0,
            "windows": [], "sites": [], "forwards": [], "optimizers": [], "widths": {"1": 1}, "containers": [],
            "counted": {"vector_steps": 0, "updates": 0, "seconds": 0.0},
            "called": {"vector_steps": 0, "updates": 0, "seconds": 0.0}, "claims": [], "subnormals": [],
            "operations": [], "deep": False, "looks": 2000, "timer_taken": False, "failures": [], "loads": [],
            "costs": {"hooks": 0.0, "looks": 0.0}, "probes": {}, "utilization": None,
            **raw,
        }  # fmt: skip

    def own(self, line: int, function: str = "main") -> Frame:
        """A frame of the script's."""
        return Frame(self.script, function, line, Owner.SCRIPT)

    def stack(self, *frames: Frame) -> int:
        """A stack of these frames, the outermost first."""
        for frame in frames:
            if frame not in self.frames:
                self.frames.append(frame)
        self.stacks.append([self.frames.index(frame) for frame in frames])
        return len(self.stacks) - 1

    def call(self, line: int, function: str = "main") -> int:
        """A network's call from a line."""
        linear = library("torch/nn/modules/linear.py", "Linear.forward")
        return self.stack(self.own(line, function), stand_in(Phase.FORWARD), linear)

    def window(self, samples: dict[int, float], start: float, **counts: float) -> None:
        """About a second: seconds by stack, and what was counted."""
        window: dict[str, Any] = {"start": start, "seconds": 1.0, "memory": 0, "device_memory": 0}
        window |= {name: counts.pop(name) for name in window if name in counts}
        self.raw["windows"].append(window | {"samples": samples, "counts": counts})

    def train(self, samples: dict[int, float], windows: int = 10, **counts: float) -> Maker:
        """Some windows that are all alike; the counters are per window."""
        for _ in range(windows):
            self.window(samples, start=float(len(self.raw["windows"])), **({"cpu": 1.0} | counts))
        counted = self.raw["counted"]
        for name in ("vector_steps", "updates"):
            counted[name] += windows * counts.get(name, 0.0)
        counted["seconds"] += windows
        self.raw["called"] = dict(counted)
        return self

    def site(self, kind: str, line: int, count: int, seconds: float = 0.0, **more: Any) -> None:
        row = {
            "function": "main",
            "elements": count,
            "on_device": 0,
            "file": self.script,
            "first": seconds / count,
        } | more
        self.raw["sites"].append({"kind": kind, "line": line, "count": count, "seconds": seconds} | row)

    def forward(self, line: int, count: int, seconds: float, **more: Any) -> None:
        """A line that called a network: for acting, unless `more` says otherwise."""
        row = {
            "file": self.script, "function": "main", "acting": count, "learning": 0, "graded": 0, "batch": 1,
            "shape": [1, 4], "network": "Net", "parameters": 1000, "trained": True, "given_gradients": True,
            "first": seconds / count,
        }  # fmt: skip
        self.raw["forwards"].append(row | {"line": line, "count": count, "seconds": seconds} | more)

    def container(self, name: str, sizes: Iterable[int], **more: Any) -> None:
        row = {"where": "main()", "type": "list", "elements": "int", "is_graph": False, "holds_graph": False}
        pairs = [[float(second), size] for second, size in enumerate(sizes)]
        self.raw["containers"].append(row | {"name": name, "sizes": pairs} | more)

    def record(self) -> WatchRecord:
        return read_record(self.json())

    def json(self) -> str:
        """The record as the watch writes it."""
        return json.dumps(self.raw | {"frames": self.frames, "stacks": self.stacks}, default=vars)

    def evidence(self) -> Evidence:
        return Evidence(self.record())
