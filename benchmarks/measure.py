"""What every benchmark writes beside its figures: when, on what, with which code and which command."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from flashdqn.compute.device import choose_device, describe_hardware


def context(device: str) -> dict[str, Any]:
    """Date, commit, command, how busy the machine was, hardware and versions."""
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "command": command(),
        "load": round(os.getloadavg()[0], 2),  # processes that ran or wanted to, over the last minute
        **describe_hardware(choose_device(device)),
    }


def command() -> str:
    """The command that was given, from the root of the project."""
    program = Path(sys.argv[0])
    return shlex.join(["python", f"{program.parent.name}/{program.name}", *sys.argv[1:]])


def commit() -> str:
    """The commit that was measured; a + marks uncommitted changes. A copy on another machine, without its
    history, is told by BENCH_COMMIT."""
    if told := os.environ.get("BENCH_COMMIT"):
        return told
    here = Path(__file__).parent
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], cwd=here, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def describe_work(ratio: float, batch: float) -> str:
    """What a throughput was reached with: without it, two rates cannot be compared."""
    return f"ratio {ratio:.4g}, batch {batch:,.0f}, reuse {ratio * batch:.3g}"


#: What a run's summary says of its work and its rates: of the windows, and of all time since its command began.
RATES = (
    "train_ratio",
    "batch",
    "reuse",
    "window_steps_per_second",
    "wall_steps_per_second",
    "wall_seconds",
    "time",
)


def read_rates(run: Path) -> dict[str, Any]:
    """A run's work and rates, from its summary."""
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return {name: summary[name] for name in RATES}


def train_apart(preset: str, settings: dict[str, Any], out: str, before: str = "") -> Path:
    """Train in a separate process, which first runs the statements `before`; returns the run folder in `out`."""
    return _run_apart({"preset": preset, "out": out} | settings, before)


def resume_apart(run: Path, settings: dict[str, Any]) -> Path:
    """Continue a run, in a separate process."""
    return _run_apart({"resume": str(run)} | settings)


def _run_apart(settings: dict[str, Any], before: str = "") -> Path:
    code = f"{before}\nimport flashdqn; print(flashdqn.train(progress=False, **{settings!r}).path)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return Path(done.stdout.strip())


def cpu_seconds(vector: object) -> float:
    """CPU time so far of this process, all its threads, and a vector environment's own processes."""
    total, tick = time.process_time(), os.sysconf("SC_CLK_TCK")
    for process in getattr(vector, "processes", []):
        words = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += (int(words[11]) + int(words[12])) / tick  # utime and stime
    return total


def write_json(path: Path, data: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def draw_bars(
    path: Path, groups: dict[str, dict[str, float]], unit: str, ours: str, log: bool = False
) -> None:
    """Bars with their figures, a panel for each group; those whose name contains `ours` are colored."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(5.6 * len(groups), 0.9 + 0.36 * max(map(len, groups.values()))), layout="constrained"
    )
    FigureCanvasAgg(figure)
    for panel, (title, bars) in zip(
        figure.subplots(1, len(groups), squeeze=False)[0], groups.items(), strict=True
    ):
        names, values = list(bars)[::-1], list(bars.values())[::-1]
        colors = ["#d95f02" if ours in name else "#7a8ca3" for name in names]
        drawn = panel.barh(names, values, color=colors)
        panel.bar_label(drawn, [f"{value:,.0f}" for value in values], padding=4, fontsize=8)
        panel.set_title(title, fontsize=9)
        panel.set_xlabel(unit, fontsize=9)
        panel.tick_params(labelsize=8)
        panel.margins(x=0.28)
        if log:
            panel.set_xscale("log")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
