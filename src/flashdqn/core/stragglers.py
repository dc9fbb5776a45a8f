"""Threads and processes that an environment has left running: Python would wait for them before it ends."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Any

#: Seconds that they have after the command's work is done.
LAST_SECONDS = 5.0


def find_stragglers() -> tuple[list[threading.Thread], list[Any]]:
    """Threads and child processes that keep this process from ending."""
    main = threading.main_thread()
    threads = [thread for thread in threading.enumerate() if thread is not main and not thread.daemon]
    started = sys.modules.get("multiprocessing")  # else there are none
    children = [child for child in started.active_children() if not child.daemon] if started else []
    return threads, children


def end_stragglers(code: int, seconds: float = LAST_SECONDS) -> None:
    """Let this process end with an exit code a few seconds from now, if something is left that runs on."""
    if any(find_stragglers()):
        threading.Thread(target=_end_process, args=(code, seconds), daemon=True).start()


def _end_process(code: int, seconds: float) -> None:
    threading.Event().wait(seconds)
    threads, children = find_stragglers()
    if not threads and not children:
        return
    for child in children:
        with suppress(Exception):
            child.kill()
    names = ", ".join([thread.name for thread in threads] + [child.name for child in children])
    with suppress(OSError):
        said = f"flashdqn: An environment has left this running, which is ended now: {names[:200]}.\n"
        os.write(2, said.encode(errors="replace"))
    os._exit(code)
