"""The folder for compiled code. What lies there is executed, so it belongs to its user alone.

It is `$FLASHDQN_CACHE`, else `~/.cache/flashdqn/kernels`. A folder or a file that another user owns or can write is
not believed; root is trusted, because root can do anything anyway. A cache that cannot be used means a slower
start: one line says why, and nothing here raises an error.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import re
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

from flashdqn.core.files import WRITING

#: Names that we write. Nothing else is ever removed, because the folder may hold other things of its user.
OWN_NAMES = re.compile(
    r"flashdqn_kernel_.*\.(kernel|lock|py|nbi|nbc)|flashdqn_(inductor|triton)(\.json|\.lock)?|(warm-up|compile-times|torch-compiled)\.json"
    rf"|\.[0-9a-f]{{16}}{re.escape(WRITING)}\.(kernel|json)|\.flashdqn-removed-.*"
)
#: Names that older versions wrote, and others may write: ours only if everything else in the folder is.
OLD_NAMES = re.compile(r"__pycache__|inductor|tmp\w{8}\.tmp")

_log = logging.getLogger("flashdqn")
_said: set[str] = set()


def say_once(kind: str, text: str) -> None:
    """Tell the user one line about the cache, on standard error; each kind of line comes once in a process."""
    if kind not in _said:
        _said.add(kind)
        _log.warning("flashdqn: %s", text)


@cache
def find_cache_folder() -> Path | None:
    """The private folder for compiled code, made if it is missing; None if there cannot be one."""
    path = None
    try:
        path = name_cache_folder()
        make_private_folder(path)
        reason = explain_distrust(path)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: there is no home
        reason = getattr(error, "strerror", None) or str(error)
    if reason is None:
        return path
    where = "" if path is None else f" '{path}'"
    say_once(
        "folder",
        f"The cache folder{where} is not used ({reason}), so every start compiles again. "
        "Set FLASHDQN_CACHE to a folder of your own.",
    )
    return None


def name_cache_folder() -> Path:
    """Where the cache is, whether it exists or not."""
    asked = os.environ.get("FLASHDQN_CACHE", "").strip()
    return Path(asked or "~/.cache/flashdqn/kernels").expanduser().absolute()


def make_private_folder(path: Path) -> None:
    """Make a folder that only its user may enter, and the missing ones above it. One that exists and holds nothing
    but our files becomes private, too."""
    if not path.is_dir():
        if not path.parent.is_dir():
            make_private_folder(path.parent)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not path.is_dir():  # not another process that was faster, but a file or a link to nowhere
                raise NotADirectoryError(errno.ENOTDIR, f"'{path}' is not a folder", str(path)) from None
        else:
            path.chmod(0o700)  # whatever the umask is
    elif _is_loose(path) and holds_only_ours(path):
        path.chmod(0o700)


def holds_only_ours(path: Path) -> bool:
    """Whether a folder is empty, or holds nothing but what we have written."""
    names = [entry.name for entry in path.iterdir()]
    return all(OWN_NAMES.fullmatch(name) or OLD_NAMES.fullmatch(name) for name in names)


def _is_loose(path: Path) -> bool:
    """Whether a folder is ours and open to others; one with the sticky bit, like /tmp, is meant to be open."""
    found = path.stat()
    is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return is_own and bool(found.st_mode & 0o077) and not found.st_mode & stat.S_ISVTX


def explain_distrust(path: Path) -> str | None:
    """Why the content of a folder or file cannot be believed; None if it can."""
    return explain_distrusted_owner(path.stat())


def explain_distrusted_owner(found: os.stat_result) -> str | None:
    """As `explain_distrust`, for what `stat` has found."""
    if not hasattr(os, "geteuid"):  # Windows: a user's folders are private
        return None
    if found.st_uid not in (0, os.geteuid()):
        return "it belongs to another user, and what lies there would be executed"
    if found.st_mode & 0o022:
        return "other users can write there, and what lies there would be executed"
    return None


def make_temporary_folder() -> Path:
    """A private folder that is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="flashdqn-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
