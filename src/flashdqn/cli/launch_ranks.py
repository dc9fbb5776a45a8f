"""`flashdqn train --ranks N`: the same command in N processes on this machine, with torchrun's environment
variables.

torchrun itself would take an exit code that asks to be resumed (75) for a failure, and gives a training half a
minute to save. This launcher passes every signal on once and waits for the save, however long it takes.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from flashdqn.cli.arguments import flag_value
from flashdqn.cli.latest import find_latest_run
from flashdqn.config import Config
from flashdqn.config.rank_share import check_share
from flashdqn.config.values import parse_count
from flashdqn.core.errors import ConfigError, RankLostError
from flashdqn.core.rank_place import RankPlace, read_place
from flashdqn.core.signals import CTRL_C_CODE, TRY_AGAIN_CODE, Interrupt, Stopped, find_exit_code

#: Seconds between two looks at the processes.
TICK = 0.05
#: Seconds in which the others end by themselves when one has failed; then they are asked to, then killed.
GRACE, LAST_SECONDS = 5.0, 15.0


def read_rank_count(arguments: list[str]) -> int:
    """The number of ranks that --ranks asks for; 1 without it. It has been checked."""
    value = flag_value(arguments, "--ranks")
    return 1 if value is None else parse_count(value)


def find_place(config: Config) -> RankPlace | None:
    """Which of several ranks this process is, by what its launcher says; None if it is alone."""
    place = read_place()
    return None if place is None or place.world == 1 else place


def launch_ranks(config: Config, arguments: list[str], count: int) -> int:
    """Run this command as `count` ranks, and wait for them; returns the exit code. Nothing is left running."""
    if read_place() is not None:
        raise ConfigError(
            "--ranks starts the ranks itself, but a launcher such as torchrun has started this process as one "
            "already: leave out --ranks, or unset RANK and WORLD_SIZE."
        )
    check_share(config, count)
    with Interrupt(waits=True) as interrupt:
        ranks = start_processes(drop_flag(arguments, "--ranks"), count)
        try:
            failed = wait_for_all(ranks, interrupt)
        finally:
            end_processes(ranks)
    if failed is None:
        return 0
    rank, code = failed
    if code < 0 and rank == 0:  # otherwise rank 0 says what has happened
        raise RankLostError(describe_lost_leader(-code, Path(config.out)))
    if code < 0 and interrupt.signal is not None:
        return find_exit_code(interrupt.signal)
    return 1 if code < 0 else code


def start_processes(arguments: list[str], count: int) -> list[subprocess.Popen[bytes]]:
    """The ranks, each in a session of its own: a signal of the terminal reaches only this process, which passes it
    on. If this process is killed, the ranks are told by the system (`rank_process.end_with_parent`)."""
    port = find_free_port()
    command = [sys.executable, "-m", "flashdqn", "train", *arguments]
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(count):
            numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
            place = {name: str(number) for name, number in numbers.items()}
            place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            ranks.append(
                subprocess.Popen(
                    command, env=os.environ | place, stdin=subprocess.DEVNULL, start_new_session=True
                )
            )
    except BaseException:
        end_processes(ranks)
        raise
    return ranks


def wait_for_all(ranks: list[subprocess.Popen[bytes]], interrupt: Interrupt) -> tuple[int, int] | None:
    """Wait until all have ended, and pass signals on. Returns the first that failed, and its exit code."""
    failed: tuple[int, int] | None = None
    since, passed, hurried = 0.0, False, False
    while any(process.poll() is None for process in ranks):
        try:
            if interrupt.requested and not passed:
                passed = True
                pass_on(ranks, interrupt.signal or signal.SIGTERM)
            time.sleep(TICK)
        except Stopped as stop:  # it came a second time
            pass_on(ranks, stop.signal)
        if failed is None and (failed := find_failed(ranks)) is not None:
            since = time.monotonic()
        # after a signal the others are saving, or about to: nobody hurries them
        if failed is None or failed[1] in (CTRL_C_CODE, TRY_AGAIN_CODE):
            continue
        late = time.monotonic() - since
        if late > GRACE and not hurried:
            hurried = True
            pass_on(ranks, signal.SIGTERM)
        if late > GRACE + LAST_SECONDS:
            end_processes(ranks)
    return failed or find_failed(ranks)


def find_failed(ranks: list[subprocess.Popen[bytes]]) -> tuple[int, int] | None:
    """The first rank that has ended with another exit code than 0, and that code; None if there is none."""
    codes = ((rank, process.poll()) for rank, process in enumerate(ranks))
    return next(((rank, code) for rank, code in codes if code), None)


def pass_on(ranks: list[subprocess.Popen[bytes]], number: int) -> None:
    """Send a signal to all ranks that still run."""
    for process in ranks:
        if process.poll() is None:
            process.send_signal(number)


def end_processes(ranks: list[subprocess.Popen[bytes]]) -> None:
    """Kill what still runs, and wait for it."""
    for process in ranks:
        if process.poll() is None:
            process.kill()
    for process in ranks:
        process.wait()


def describe_lost_leader(number: int, out: Path) -> str:
    """What to say if rank 0, which would say it, was killed."""
    run = find_latest_run(out)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    kept = "There is no checkpoint to resume from."
    if run is not None:
        kept = f"The last checkpoint is whole; go on with: flashdqn train --resume {run}"
    return f"Rank 0 was ended by {name}, and the others with it. {kept}"


def find_free_port() -> int:
    """A port on this machine that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def drop_flag(arguments: list[str], flag: str) -> list[str]:
    """The words without a flag and its value."""
    rest: list[str] = []
    skip = False
    for word in arguments:
        if skip or word.startswith(f"{flag}="):
            skip = False
        elif word == flag:
            skip = True
        else:
            rest.append(word)
    return rest
