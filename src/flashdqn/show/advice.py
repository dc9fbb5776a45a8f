"""What to try after a training whose score never moved: said at the end of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the doctor prints without PyTorch
    from flashdqn.config import Config

PAGE = "docs/troubleshooting.md#the-score-does-not-move"
#: Fewer windows and evaluations say nothing yet.
FEWEST = 3
#: A train ratio with which MountainCar was learned, where smaller ones failed.
MANY_UPDATES = 0.5
#: Scores that differ by less, relative to their size, are the same.
SAME = 1e-6


def list_advice(run: Path, config: Config) -> list[str]:
    """Lines about a score that never moved, and what to try; empty if it moved, or if that cannot be told."""
    from flashdqn.runs.tables import read_evaluations, read_metrics

    rows = [row for row in read_metrics(run) if row.window_episodes > 0]
    windows = [row.return_ if row.score is None else row.score for row in rows]
    evaluations = [row.mean_score for row in read_evaluations(run)]
    stuck = find_stuck_score(windows, evaluations)
    if stuck is None:
        return []
    found = [f"The score never moved from {stuck:.2f}. If that is not the best there is, try:"]
    return [*found, *(f"  {line}" for line in list_cures(config)), f"  more: {PAGE}"]


def find_stuck_score(windows: Sequence[float], evaluations: Sequence[float]) -> float | None:
    """The one score that all windows of the training and all evaluations had; None if there were others."""
    scores = [*windows, *evaluations]
    if len(windows) < FEWEST or len(evaluations) < FEWEST or not all(map(math.isfinite, scores)):
        return None
    low, high = min(scores), max(scores)
    return scores[-1] if high - low <= SAME * max(1.0, abs(low), abs(high)) else None


def list_cures(config: Config) -> list[str]:
    """What may help, as flags for this configuration."""
    cures = []
    if name := find_tuned_preset(config):
        cures.append(f"the settings that were tuned for it: flashdqn train {name}")
    explore, learn = config.explore, config.learn
    if explore.schedule != "spread":
        cures.append(f"a longer search: --explore.over {4 * explore.over}, and more --steps")
    if config.replay.n_step == 1 and learn.method == "replay" and learn.bootstrap in ("greedy", "double"):
        cures.append("rewards that reach earlier moves sooner: --replay.n-step 5")
    if getattr(config.env, "scale", True) is False:
        cures.append("observations of one size: --env.scale")
    if learn.method == "replay" and config.train_ratio < MANY_UPDATES:
        cures.append(f"more updates, so that what was seen is left sooner: --train-ratio {MANY_UPDATES}")
    return cures


def find_tuned_preset(config: Config) -> str | None:
    """The preset for the same environment, if the run did not use its settings."""
    from flashdqn.config.presets import PRESETS, base_config

    name = getattr(config.env, "id", None)
    for preset, about in PRESETS.items():
        if name is not None and about.settings.get("env", {}).get("id") == name:
            tuned = base_config(preset)
            parts = ("learn", "explore", "replay", "network")
            return preset if any(getattr(tuned, p) != getattr(config, p) for p in parts) else None
    return None
