"""The latest run, for commands that are given none."""

from __future__ import annotations

import os
from pathlib import Path

from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.core.suggestions import suggest_close
from flashdqn.show.terminal import SteadyConsole

#: Where `flashdqn train` puts its runs without --out.
RUNS = Path("runs")


def choose_run(named: Path | None, command: str) -> Path:
    """The run that was named; or else the latest below `runs`, and a line that says which it is."""
    if named is not None:
        check_exists(named)
        return named
    found = find_latest_run(RUNS)
    if found is None:
        raise ConfigError(
            f"There is no run in '{RUNS}' yet: name one (flashdqn {command} RUN), or train one (flashdqn train)."
        )
    console = SteadyConsole(stderr=True, soft_wrap=True)
    console.print(f"The latest run is {found}", highlight=False, markup=False)
    return found


def check_exists(run: Path) -> None:
    """Refuse a path that is not there before PyTorch is imported; the rest is checked when the run is opened."""
    if not os.path.lexists(run) and run.parent.name != "checkpoints":
        known = [str(path) for path in sorted(RUNS.glob("*/"))]
        close = suggest_close(str(run), known)
        if close == "." and (latest := find_latest_run(RUNS)) is not None:
            close = f"; the latest run is {latest}."
        raise CheckpointError(f"{run} does not exist{close}")
    if not os.path.lexists(run / "config.json") and (latest := find_latest_run(run)) is not None:
        raise CheckpointError(f"{run} is a folder of runs: name one of them; the latest is {latest}.")


def find_latest_run(folder: Path) -> Path | None:
    """The run in a folder that has saved a checkpoint last; links are left out."""
    try:
        runs = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
        saved = {path: find_last_save(path) for path in runs}
    except OSError:
        return None
    times = {path: seconds for path, seconds in saved.items() if seconds is not None}
    return max(times, key=lambda path: (times[path], path.name)) if times else None


def find_last_save(run: Path) -> float | None:
    """When a run has saved its last checkpoint; None if it has none, or is not a run."""
    if not (run / "config.json").is_file() or (run / "checkpoints").is_symlink():
        return None
    return max((path.stat().st_mtime for path in (run / "checkpoints").glob("[0-9]*")), default=None)
