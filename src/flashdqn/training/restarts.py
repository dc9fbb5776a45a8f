"""torchrun's --max-restarts: ranks that are started again go on with the run that they had begun.

torchrun's process lives on, so its number and start name a small file beside the runs; or the name that the user
gave to the job (--rdzv-id), because on a cluster the first rank may come back on another machine.
"""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path

#: How often torchrun has started the ranks again, and what the user calls the job.
RESTARTS, JOB = "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID"
#: The largest path that is believed.
MOST = 4096


def remember_run(config_out: str, path: Path) -> None:
    """Write down which run is trained, if torchrun has started this process."""
    if (note := find_note(config_out)) is not None:
        with suppress(OSError):  # without it, a restart begins a new run
            note.write_text(str(path), encoding="utf-8")


def recall_run(config_out: str) -> Path | None:
    """The run that was trained before torchrun started the ranks again; None if it did not, or nothing is known."""
    if os.environ.get(RESTARTS, "0") == "0" or (note := find_note(config_out)) is None:
        return None
    with suppress(OSError, ValueError):
        if note.is_file() and not note.is_symlink():
            return Path(note.read_text(encoding="utf-8")[:MOST])
    return None


def forget_run(config_out: str) -> None:
    """Remove what `remember_run` has written: the training is over."""
    if (note := find_note(config_out)) is not None:
        with suppress(OSError):
            note.unlink(missing_ok=True)


def find_note(config_out: str) -> Path | None:
    """The file of this job; None if it is not torchrun's."""
    if JOB not in os.environ:
        return None
    job = os.environ[JOB]
    if job in ("", "none"):
        launcher = os.getppid()
        try:
            began = Path(f"/proc/{launcher}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        except (OSError, IndexError):
            began = ""
        job = f"{socket.gethostname()}/{launcher}/{began}"
    return Path(config_out) / f".torchrun-{hashlib.sha256(job.encode()).hexdigest()[:16]}"
