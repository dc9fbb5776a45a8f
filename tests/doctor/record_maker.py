"""Records made by hand: what the watch would have written, without a script that ran."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.phases import CALL, WATCH
from flashdqn.doctor.record import WatchRecord, make_record

Frame = tuple[str, str, int, bool]

STEP = "counted_step.<locals>.step"
REPLAY = "named_replay.<locals>.replay"
METHOD = "counted_method.<locals>.method"
BACKWARD = "counted_backward.<locals>.backward"
PRINTED = "watch_prints.<locals>.printed"
LIBRARIES = "/usr/lib/python3.11/site-packages"


def stand_in(name: str) -> Frame:
    """A frame of the watch itself."""
    return f"{WATCH}/hooks.py", name, 1, True


def library(path: str, name: str = "f") -> Frame:
    """A frame of some library."""
    return f"{LIBRARIES}/{path}", name, 1, True


class Maker:
    """Put together what was seen, then ask for the evidence."""

    def __init__(self, script: Path, **raw: Any) -> None:
        self.script = str(script)
        self.frames: list[Frame] = []
        self.stacks: list[list[int]] = []
        self.raw: dict[str, Any] = {
            "script": self.script, "arguments": [], "ended": "stopped", "error": "", "code": 0, "python": "3.11.7",
            "torch": "2.13.0", "jax": False, "device": "cpu", "cores": 4, "threads": 1, "training_began": 0.0,
            "windows": [], "sites": [], "forwards": [], "optimizers": [], "widths": {"1": 1}, "containers": [],
            "counted": {"vector_steps": 0.0, "updates": 0.0, "seconds": 0.0},
            "called": {"updates": 0.0, "seconds": 0.0}, "claims": [], "subnormals": [], "probes": {},
            "operations": [], "deep": False, "looks": 2000, "timer_taken": False, "failures": [], "loads": [],
            "own": {"hooks": 0, "hook_seconds": 0.0, "look_seconds": 0.0}, "utilization": None,
            **raw,
        }  # fmt: skip

    def own(self, line: int, function: str = "main") -> Frame:
        """A frame of the script's."""
        return self.script, function, line, False

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
        return self.stack(self.own(line, function), stand_in(CALL), linear)

    def window(self, samples: dict[int, float], start: float, **counts: float) -> None:
        """About a second: seconds by stack, and what was counted."""
        zero = dict.fromkeys(
            ("transitions", "vector_steps", "episodes", "episode_steps", "updates", "cpu"), 0.0
        )
        window = {"start": start, "seconds": 1.0, "memory": 0, "device_memory": 0}
        self.raw["windows"].append(
            window | zero | {"samples": {str(n): s for n, s in samples.items()}} | counts
        )

    def train(self, samples: dict[int, float], windows: int = 10, **counts: float) -> Maker:
        """So many windows that are all alike; the counters are per window."""
        for _ in range(windows):
            self.window(samples, start=float(len(self.raw["windows"])), **({"cpu": 1.0} | counts))
        counted = self.raw["counted"]
        for name in ("vector_steps", "updates"):
            counted[name] += windows * counts.get(name, 0.0)
        counted["seconds"] += windows
        self.raw["called"] = {name: counted[name] for name in ("updates", "seconds")}
        return self

    def site(self, kind: str, line: int, count: int, seconds: float = 0.0, **more: Any) -> None:
        row = {"function": "main", "elements": count, "on_device": 0, "file": self.script} | more
        self.raw["sites"].append({"kind": kind, "line": line, "count": count, "seconds": seconds} | row)

    def forward(self, line: int, count: int, seconds: float, **more: Any) -> None:
        """A line that called a network: for acting, unless something else is said."""
        row = {
            "file": self.script, "function": "main", "acting": count, "learning": 0, "graded": 0, "batch": 1,
            "shape": [1, 4], "network": "Net", "parameters": 1000, "trained": True, "given_gradients": True,
        }  # fmt: skip
        self.raw["forwards"].append(row | {"line": line, "count": count, "seconds": seconds} | more)

    def container(self, name: str, sizes: Iterable[int], **more: Any) -> None:
        row = {"where": "main()", "type": "list", "elements": "int", "holds_graph": False}
        pairs = [[float(second), size] for second, size in enumerate(sizes)]
        self.raw["containers"].append(row | {"name": name, "sizes": pairs} | more)

    def record(self) -> WatchRecord:
        return make_record(self.raw | {"frames": [list(f) for f in self.frames], "stacks": self.stacks})

    def evidence(self) -> Evidence:
        return Evidence(self.record())
