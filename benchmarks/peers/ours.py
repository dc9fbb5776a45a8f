"""flashdqn itself, through `flashdqn.train`: plain DQN, as most of the others have it, or Rainbow.

The window runs from the first report after the burn-in to the last one, by the clock of the run: reports and
TensorBoard events are inside. Evaluation and checkpoints are off, as they are for the others.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from typing import Any

import flashdqn
from flashdqn.learn.algorithms import ALGORITHMS
from flashdqn.runs.rows import MetricsRow
from flashdqn.runs.tables import read_metrics
from peers import task

GAMES = {"snake": "snake", "cartpole": "peers.cartpole_game:CartPole"}
REPORT_EVERY = 2_000  # transitions: the window begins and ends at a report


def settings(asked: argparse.Namespace, out: str) -> dict[str, Any]:
    """The shared task in our words."""
    return {
        "max_time": task.BURN_IN_SECONDS + asked.seconds,
        "envs": asked.envs,
        "train_ratio": task.RATIO,
        "device": asked.device,
        "out": out,
        **({"env": {"features": "basic", "size": 10}} if asked.game == "snake" else {}),
        "network": {"hidden": task.HIDDEN},
        "replay": {"capacity": task.REPLAY},
        "learn": {
            "batch_size": task.BATCH,
            "lr": task.LR,
            "gamma": task.GAMMA,
            "starts": task.STARTS,
            "target_every": task.TARGET_EVERY,
            "bootstrap": "greedy",
        },
        "runtime": {"threads": asked.threads},
        "explore": {"start": task.EPS, "end": task.EPS},
        "eval": {"every": 0, "episodes": 1},
        "log": {"every": REPORT_EVERY if asked.device == "cpu" else 10 * REPORT_EVERY, "checkpoint_every": 0},
    }


def rainbow_settings(asked: argparse.Namespace, out: str) -> dict[str, Any]:
    """The same for Rainbow: the algorithm's own settings, with the numbers that all programs share."""
    own = ALGORITHMS["rainbow"].settings
    common = settings(asked, out)
    changes = {
        "network": {"dueling": True, "noisy": True, "noisy_sigma": task.NOISE},
        "replay": {"priority": task.ALPHA, "beta": task.BETA, "n_step": task.N_STEP},
        "learn": {
            "head": "categorical", "bootstrap": "double", "atoms": task.ATOMS, "v_min": task.V_MIN, "v_max":
            task.V_MAX
        },
        "explore": {"schedule": "linear", "start": 0.0, "end": 0.0},
    }  # fmt: skip
    for group, values in changes.items():
        assert all(own.get(f"{group}.{key}", value) == value for key, value in values.items())
        common[group] = common[group] | values
    return common


def window(rows: list[MetricsRow]) -> dict[str, Any]:
    """From the first report after the burn-in to the last."""
    late = [row for row in rows if row.seconds >= task.BURN_IN_SECONDS]
    if len(late) < 2:
        raise SystemExit("Too few reports in the window: give more --seconds.")
    first, last = late[0], late[-1]
    return {
        "steps": last.step - first.step,
        "seconds": round(last.seconds - first.seconds, 4),
        "updates": last.updates - first.updates,
    }


def main() -> None:
    asked = task.arguments()
    with tempfile.TemporaryDirectory() as out:
        made = rainbow_settings(asked, out) if asked.work == "rainbow" else settings(asked, out)
        run = flashdqn.train(GAMES[asked.game], progress=False, **made)
        result = window(read_metrics(run.path))
        hardware = json.loads((run.path / "config.json").read_text(encoding="utf-8"))["hardware"]
    result["all_steps"] = run.summary["steps"]
    about = {"envs": asked.envs, "threads": hardware["threads"], "version": flashdqn.__version__}
    task.report(result, algorithm="Rainbow" if asked.work == "rainbow" else "DQN", **about)


if __name__ == "__main__":
    main()
