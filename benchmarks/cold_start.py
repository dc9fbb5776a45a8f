"""How long until a training does something: from the command to the first output, transition and gradient step.

    python benchmarks/cold_start.py [PRESET …] [--device cuda] [--rounds 3] [--peers] [--json FILE]
    python benchmarks/cold_start.py --write docs/performance.md     # the page's table

Cold: with an empty cache for compiled code, as after an installation. Warm: the same command again. Every start is
a process of its own, and is stopped after its first gradient step; with demonstrations that is the first one on
them, after they were played. The programs take turns; a row has the median of the rounds. Peers train on
CartPole-v1 with their own settings, except that the first gradient step comes after 1,000 transitions.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import context, write_json

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "cold-start.json"
PEERS_PYTHON = HERE.parent / ".venv-bench" / "bin" / "python"
PRESETS = (
    "snake", "snake-flood", "snake-enhanced", "fuelbreaks-small", "cartpole", "acrobot", "mountaincar", "sfc",
)  # fmt: skip
ON_CUDA = ("snake", "snake-flood", "snake-enhanced", "snake-grid", "sfc", "fuelbreaks-small", "fuelbreaks-20",
           "fuelbreaks", "cartpole", "acrobot")  # fmt: skip
BEGIN, END = "<!-- cold start: begin -->", "<!-- cold start: end -->"
#: A start that takes longer, in seconds, is given up.
LIMIT = 400.0

#: Runs the command of sys.argv[2:], and writes to file descriptor sys.argv[1] when something has happened.
OURS = """
import os, sys, threading, time
told = int(sys.argv.pop(1))
def tell(what):
    os.write(told, f"{what} {time.time()}\\n".encode())
def put_in():
    while (module := sys.modules.get("flashdqn.training.loop")) is None or not hasattr(module, "Loop"):
        time.sleep(0.005)
    learn, collected = module.Loop.learn, []
    def watched(self):
        if not collected:
            collected.append(1)
            tell("transition")
        learn(self)
        if self.parts.learner.updates:
            end()
    def end():
        import torch
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        tell("update")
        os._exit(0)
    module.Loop.learn = watched
    iterate = module.Loop.iterate
    def watched_iterate(self):
        iterate(self)
        if self.engine.decides_on_device:  # it learns without the host
            self.engine.settle()
            watched(self)
    module.Loop.iterate = watched_iterate
    from flashdqn.training import demonstrate
    def learn_once(config, parts, engine, stop):
        tell("transition")
        engine.learn(1)
        end()
    demonstrate.learn_from_demonstrations = learn_once
threading.Thread(target=put_in, daemon=True).start()
from flashdqn.cli.main import main
main()
"""
#: The same for a peer: its name, and where its updates are made.
PEER = """
import os, sys, time
told, library = int(sys.argv[1]), sys.argv[2]
def tell(what):
    os.write(told, f"{what} {time.time()}\\n".encode())
if library == "sb3":
    from stable_baselines3 import DQN
else:
    from sbx import DQN
train = DQN.train
def watched(self, *given, **named):
    train(self, *given, **named)
    tell("update")
    os._exit(0)
DQN.train = watched
DQN("MlpPolicy", "CartPole-v1", learning_starts=1000, verbose=1).learn(100_000)
"""


def time_start(command: list[str], env: dict[str, str], limit: float = LIMIT) -> dict[str, float]:
    """Seconds from the start of a process to its first output, transition and gradient step."""
    told, tells = os.pipe()
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*command[:3], str(tells), *command[3:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[tells],
            cwd=folder,
            env=os.environ | env,
        )
        os.close(tells)
        assert process.stdout is not None
        found: dict[str, float] = {}
        words, said = b"", b""
        waiting = {told, process.stdout.fileno()}
        while waiting and time.time() < began + limit:
            for ready in select.select(waiting, [], [], 1.0)[0]:
                data = os.read(ready, 65536)
                if not data:
                    waiting.discard(ready)
                elif ready == told:
                    words += data
                else:
                    said += data
                    found.setdefault("output", time.time() - began)
        process.kill()
        process.wait()
        process.stdout.close()
    os.close(told)
    found |= {what: float(at) - began for what, at in (line.split() for line in words.decode().splitlines())}
    if "update" not in found:
        print(said.decode(errors="replace")[-2000:], file=sys.stderr)
    return found


def time_ours(preset: str, device: str, cache: str, limit: float) -> dict[str, float]:
    """A start of our own, with a cache folder."""
    command = [sys.executable, "-c", OURS, "train", preset, "--device", device, "--out", "runs"]
    return time_start(command, {"FLASHDQN_CACHE": cache}, limit)


def time_peer(library: str) -> dict[str, float]:
    """A start of another library."""
    return time_start([str(PEERS_PYTHON), "-c", PEER, library], {"CUDA_VISIBLE_DEVICES": ""})


def measure_starts(
    presets: list[str], device: str, rounds: int, peers: bool, limit: float = LIMIT
) -> list[dict[str, Any]]:
    """All rows, with the median of the rounds."""
    seen: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(rounds):
        for preset in presets:
            with tempfile.TemporaryDirectory() as cache:
                for kind in ("cold", "warm"):
                    starts = seen.setdefault((preset, kind), [])
                    starts.append(time_ours(preset, device, f"{cache}/kernels", limit))
                    print(
                        preset, kind, {k: round(v, 1) for k, v in seen[preset, kind][-1].items()}, flush=True
                    )
        for library in ("sb3", "sbx") if peers else ():
            seen.setdefault((library, "warm"), []).append(time_peer(library))
            print(library, seen[library, "warm"][-1], flush=True)
    rows = []
    for (name, kind), starts in seen.items():
        row: dict[str, Any] = {"name": name, "start": kind, "rounds": len(starts)}
        for what in ("output", "transition", "update"):
            times = [start[what] for start in starts if what in start]
            row[what] = round(statistics.median(times), 2) if len(times) == len(starts) else None
        row["longest"] = round(max(start.get("update", limit) for start in starts), 2)
        rows.append(row)
    return rows


def make_table(data: dict[str, Any]) -> str:
    """The table for docs/performance.md."""
    lines = []
    for part in data["parts"]:
        where = f"{part['device']}, {part['cores']} cores"
        lines += [
            f"`{part['command']}` ({part['date']}, commit {part['commit']}, {where}; seconds, median of "
            f"{part['results'][0]['rounds']}):",
            "",
            "| | first output | first gradient step, cold | longest | warm |",
            "|---|---|---|---|---|",
        ]
        rows = {(row["name"], row["start"]): row for row in part["results"]}
        for name in dict.fromkeys(row["name"] for row in part["results"]):
            cold, warm = rows.get((name, "cold")), rows.get((name, "warm"), {})
            label = {"sb3": "Stable-Baselines3, CartPole-v1", "sbx": "SBX, CartPole-v1"}.get(
                name, f"`{name}`"
            )
            first = (cold or warm)["output"]
            times = [None, None] if cold is None else [cold["update"], cold["longest"]]
            cells = ("–" if x is None else f"{x:.1f}" for x in (first, *times, warm.get("update")))
            lines.append(f"| {label} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("presets", nargs="*")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds after which a start is given up")
    parser.add_argument(
        "--peers", action="store_true", help="Stable-Baselines3 and SBX too (make bench-setup)"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path, help=f"only put the table of {RESULTS.name} into this page")
    arguments = parser.parse_args()
    if arguments.write:
        text = arguments.write.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        table = make_table(json.loads(RESULTS.read_text(encoding="utf-8")))
        arguments.write.write_text(
            f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8"
        )
        return
    presets = arguments.presets or list(PRESETS if arguments.device == "cpu" else ON_CUDA)
    rows = measure_starts(presets, arguments.device, arguments.rounds, arguments.peers, arguments.limit)
    part = {**context(arguments.device), "results": rows}
    if arguments.json:
        parts = []
        if arguments.json.exists():  # the other device's figures stay
            known = json.loads(arguments.json.read_text(encoding="utf-8"))["parts"]
            parts = [other for other in known if other["device"] != part["device"]]
        write_json(arguments.json, {"parts": [*parts, part]})


if __name__ == "__main__":
    main()
