"""One rank of a training that a launcher has started: torchrun, `--ranks`, or a script of a cluster."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from flashdqn.config import Config
from flashdqn.core.errors import FlashDQNError, RankLostError, ToldByLeaderError
from flashdqn.core.rank_place import RankPlace
from flashdqn.core.user_code import Permission
from flashdqn.show.terminal import SteadyConsole, show_summary
from flashdqn.training.progress import Progress, Silent, choose_progress

if TYPE_CHECKING:
    from flashdqn.compute.ranks import Ranks
    from flashdqn.training.summary import SessionEnd

#: Linux: the signal that a process gets when its parent has ended.
PR_SET_PDEATHSIG = 1

Train = Callable[[Config, "Path | None", Progress, "Ranks"], "SessionEnd"]


def run_rank(
    config: Config, resume: Path | None, place: RankPlace, permission: Permission, train: Train
) -> int:
    """Train as this rank; returns the exit code. What goes wrong is said by one rank, the first if it can."""
    end_with_parent()
    leads = place.rank == 0
    console = SteadyConsole(always=True, soft_wrap=sys.stdout is None or not sys.stdout.isatty())
    progress = choose_progress(console) if leads else Silent()
    progress.prepare()  # before PyTorch is imported
    try:
        done = join_and_train(config, resume, place, permission, progress, train)
    finally:
        progress.prepared()
    if leads:
        show_summary(console, done)
    return done.exit_code


def join_and_train(
    config: Config,
    resume: Path | None,
    place: RankPlace,
    permission: Permission,
    progress: Progress,
    train: Train,
) -> SessionEnd:
    """Meet the other ranks, train, and leave them."""
    import torch

    from flashdqn.cli.restarts import find_restarted_run
    from flashdqn.compute.core_count import share_cores
    from flashdqn.compute.ranks import choose_rank_device, start_ranks
    from flashdqn.training.restarts import forget_run

    share_cores(place.local_world)
    device = choose_rank_device(config.device, place)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    ranks = start_ranks(place, device)
    try:
        config, resume = find_restarted_run(config, resume, ranks, permission)
        done = train(config, resume, progress, ranks)
        forget_run(config.out)
        return done
    except ToldByLeaderError:
        raise
    except RankLostError as error:
        if place.rank == 0:
            raise
        raise ToldByLeaderError(error.exit_code) from error
    except FlashDQNError as error:
        if place.rank:
            error.args = (f"Rank {place.rank}: {error}",)
        raise
    finally:
        with suppress(Exception):  # whatever is wrong with the group, this process leaves it
            ranks.end()


def end_with_parent() -> None:
    """Let the system send SIGTERM to this process when its launcher ends, so that it saves and ends, too."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # it has ended in between
        signal.raise_signal(signal.SIGTERM)
