"""What a short training reaches in environments of other packages, beside random play in the same environment.

    make packages                                                    # first
    .venv-packages/bin/python benchmarks/packages.py --json benchmarks/results/packages.json
    .venv-packages/bin/python benchmarks/packages.py --only minigrid popgym   # with --json: the other rows stay
    python benchmarks/packages.py --write docs/environments.md       # the page's table

Nothing is tuned. Every training is a process of its own with one seed. The best checkpoint and random play have the
same number of games. A package that is missing, fails or takes longer than `--limit` seconds is a row, too.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import commit, context, write_json

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "packages.json", HERE.parent / "docs" / "environments.md"
BEGIN, END = "<!-- packages: begin -->", "<!-- packages: end -->"
CROP = {"observation_keys": ["glyphs_crop", "blstats"]}
#: By package: the name, transitions, and settings.
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "mobile-env": ("gym:mobile-small-central-v0", 3000, {"envs": 4}),
    "JSSEnv": ("gym:jss-v1", 100_000, {"envs": 4, "eval.episodes": 4}),
    "minigrid": ("gym:MiniGrid-Empty-5x5-v0", 6000, {"envs": 8, "network.torso": "mlp"}),
    "highway-env": ("gym:highway-fast-v0", 8000, {"envs": 2, "eval.episodes": 10, "eval.every": 0}),
    "gym-trading-env": ("gym:package_envs:make_trading", 10_000, {"envs": 4}),
    "grid2op": ("gym:package_envs:make_grid", 300, {"envs": 2, "eval.episodes": 2, "eval.every": 0}),
    "popgym": ("gym:popgym-RepeatPreviousEasy-v0", 20_000, {"envs": 8, "env.stack": 5}),
    "flappy-bird-gymnasium": (
        "gym:FlappyBird-v0",
        20_000,
        {"envs": 8, "env.kwargs": {"use_lidar": False}},
    ),
    "gym-pusht": ("gym:gym_pusht/PushT-v0", 3000, {"envs": 4, "env.action_bins": 9, "eval.episodes": 5}),
    "gym-anytrading": ("gym:stocks-v0", 30_000, {"envs": 2, "env.max_steps": 200, "network.normalize": True}),
    "gymnasium-robotics": ("gym:FetchReachDense-v4", 3000, {"envs": 4, "env.action_bins": 3}),
    "minihack": ("gym:MiniHack-Room-5x5-v0", 30_000, {"envs": 4, "env.kwargs": CROP}),
    "slimevolleygym": ("gym:slimevolleygym:SlimeVolley-v0", 60_000, {"envs": 2, "eval.episodes": 2}),
}
COMMON = {
    "device": "cpu",
    "eval.episodes": 20,
    "log.tensorboard": False,
    "log.game": False,
    "runtime.threads": 1,
}
#: Trains one case and plays randomly; prints both as JSON in its last line.
PROGRAM = """
import json, sys
import torch, flashdqn
from flashdqn.core.contract import close_env
from flashdqn.envs import build_evaluation_env
from random_play import play_games_randomly
name, settings = json.loads(sys.argv[1])
run = flashdqn.train(name, progress=False, **settings)
env = build_evaluation_env(run.config.env, run.config.eval.episodes, torch.device("cpu"))
chance = play_games_randomly(env, seed=1)
close_env(env)
trained = run.summary["evaluation"]
print(json.dumps({
    "steps": run.summary["steps"], "seconds": round(run.summary["seconds"], 1),
    "score": trained["mean_score"], "error": trained["score_error"], "games": trained["episodes"],
    "random": chance.mean_score, "random_error": chance.score_error, "random_games": chance.episodes,
}))
"""


def try_package(package: str, limit: float) -> dict[str, Any]:
    """A row: what one package's environment came to, or why not."""
    name, steps, settings = CASES[package]
    row: dict[str, Any] = {"package": package, "name": name, "commit": commit()}
    try:
        row["version"] = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return row | {"problem": "not installed"}
    with tempfile.TemporaryDirectory() as out:
        words = json.dumps([name, COMMON | settings | {"steps": steps, "out": out}])
        path = ":".join(map(str, (HERE, HERE.parent / "tests" / "envs", HERE.parent / "src")))
        command = ["env", f"PYTHONPATH={path}", sys.executable, "-c", PROGRAM, words]
        try:
            done = subprocess.run(
                command, cwd=out, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return row | {"problem": f"not done after {limit:g} s"}
    if done.returncode:
        last = (done.stderr.strip() or "?").splitlines()[-1].replace(str(HERE.parent), "…")
        return row | {"problem": last[:200]}
    return row | json.loads(done.stdout.strip().splitlines()[-1])


def make_table(data: dict[str, Any]) -> str:
    """The table in docs/environments.md."""
    lines = [
        f"`{data['command']}` ({data['date']}, {data['device']}, {data['cores']} cores; commits "
        f"{', '.join(dict.fromkeys(row['commit'] for row in data['results']))}):",
        "",
        "| package | transitions | reached | random play | games each |",
        "|---|---|---|---|---|",
    ]
    for row in data["results"]:
        if "problem" in row:
            lines.append(f"| {row['package']} | | {row['problem']} | | |")
            continue
        score = f"{row['score']:.2f} ± {row['error']:.2f}"
        chance = f"{row['random']:.2f} ± {row['random_error']:.2f}"
        lines.append(f"| {row['package']} | {row['steps']:,} | {score} | {chance} | {row['games']} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path, help=f"only put the table of {RESULTS.name} into this page")
    arguments = parser.parse_args()
    if arguments.write:
        before, _, rest = arguments.write.read_text(encoding="utf-8").partition(BEGIN)
        table = make_table(json.loads(RESULTS.read_text(encoding="utf-8")))
        text = f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"
        arguments.write.write_text(text, encoding="utf-8")
        return
    rows: dict[str, dict[str, Any]] = {}
    if arguments.json and arguments.json.exists():
        known = json.loads(arguments.json.read_text(encoding="utf-8"))["results"]
        rows = {row["package"]: row for row in known}
    for package in arguments.only:
        rows[package] = try_package(package, arguments.limit)
        print(rows[package], flush=True)
        if arguments.json:
            inorder = [rows[name] for name in CASES if name in rows]
            write_json(arguments.json, {**context("cpu"), "results": inorder})


if __name__ == "__main__":
    main()
