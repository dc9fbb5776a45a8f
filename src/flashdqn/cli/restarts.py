"""torchrun's --max-restarts: ranks that are started again go on with the run that they had begun."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashdqn.compute.ranks import Ranks
from flashdqn.config import Config
from flashdqn.core.errors import CheckpointError
from flashdqn.core.user_code import Permission
from flashdqn.runs.checkpoint import list_checkpoints
from flashdqn.runs.folder import RunFolder
from flashdqn.training.restarts import recall_run


def find_restarted_run(
    config: Config, resume: Path | None, ranks: Ranks, permission: Permission
) -> tuple[Config, Path | None]:
    """The run to go on with, and its settings, if torchrun has started the ranks again; otherwise as given."""
    if resume is not None:
        return config, resume
    found = ranks.share(read_run(config.out, permission) if ranks.leads else None)
    if found is None:
        return config, None
    runtime = replace(config.runtime, mode=found["mode"], threads=found["threads"])
    return replace(config, runtime=runtime), Path(found["path"])


def read_run(out: str, permission: Permission) -> dict[str, Any] | None:
    """The run that rank 0 trained before, with the mode that was chosen; None if there is nothing to resume."""
    if (path := recall_run(out)) is None:
        return None
    with suppress(CheckpointError, OSError):
        folder = RunFolder.open(path)
        if list_checkpoints(folder.checkpoints, with_state=True):
            runtime = folder.config(permission).runtime
            return {"path": str(path), "mode": runtime.mode, "threads": runtime.threads}
    return None
