"""`flashdqn cache`: the compiled code on disk."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from flashdqn.cli.arguments import parse
from flashdqn.compute.cache_entries import (
    DAY,
    CacheItem,
    DamagedEntryError,
    list_items,
    read_entry,
    remove_item,
)
from flashdqn.compute.cache_folder import explain_distrust, name_cache_folder
from flashdqn.compute.tool_caches import is_in_use
from flashdqn.core.errors import ConfigError
from flashdqn.core.suggestions import suggest_nearest
from flashdqn.show.terminal import SteadyConsole

#: The variable that says where another compiler keeps its code, and where it does so by default.
TOOL_FOLDERS = {
    "torch.compile": ("TORCHINDUCTOR_CACHE_DIR", "torchinductor_USER in the temporary folder"),
    "Triton": ("TRITON_CACHE_DIR", "~/.triton/cache"),
    "the CUDA driver": ("CUDA_CACHE_PATH", "~/.nv/ComputeCache"),
}


@dataclass(frozen=True)
class CacheArguments:
    """The compiled code on disk: what lies there, whether it is whole, and how to remove it.

    flashdqn cache
    flashdqn cache check
    flashdqn cache clear
    flashdqn cache clear --older-than 30d

    The folder is $FLASHDQN_CACHE, else ~/.cache/flashdqn/kernels. Removing it only makes the next start slower.
    """

    action: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="show|check|clear")] = "show"
    """show: what there is. check: read every file; the exit code is 1 if one is damaged. clear: remove all."""
    older_than: Annotated[str | None, tyro.conf.arg(metavar="30d")] = None
    """For clear: only what was not used for so long, in days (30d), hours (12h) or weeks (4w)."""


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn cache`."""
    parsed = parse("cache", CacheArguments, arguments, ["older-than"])
    actions = {"show": show_cache, "check": check_cache}
    if parsed.action not in (*actions, "clear"):
        raise ConfigError(
            f"Unknown action '{parsed.action}'{suggest_nearest(parsed.action, [*actions, 'clear'])}"
        )
    if parsed.action != "clear" and parsed.older_than is not None:
        raise ConfigError("--older-than is for `flashdqn cache clear`.")
    folder, console = find_folder(), SteadyConsole(soft_wrap=True, highlight=False, markup=False)
    if parsed.action == "clear":
        seconds = 0.0 if parsed.older_than is None else parse_age(parsed.older_than)
        return clear_cache(folder, console, seconds)
    return actions[parsed.action](folder, console)


def find_folder() -> Path:
    """The cache folder, which need not exist."""
    try:
        return name_cache_folder()
    except RuntimeError:
        raise ConfigError("There is no home folder here, so there is no cache. Set FLASHDQN_CACHE.") from None


def parse_age(text: str) -> float:
    """Seconds of an age like `30d`."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([hdw])", text.strip(), re.ASCII)
    if found is None:
        raise ConfigError(f"--older-than takes days, hours or weeks, such as 30d, 12h or 4w, not '{text}'.")
    return float(found[1]) * {"h": DAY / 24, "d": DAY, "w": 7 * DAY}[found[2]]


def show_cache(folder: Path, console: SteadyConsole) -> int:
    """Print what lies in the cache."""
    console.print(f"Folder   {folder}")
    if not folder.is_dir():
        console.print("         is not there yet: the first training makes it")
    elif reason := explain_distrust(folder):
        console.print(f"         is not used: {reason}")
    items = list_items(folder)
    entries = [item for item in items if item.is_entry]
    damaged = find_damage(entries)
    console.print(f"Kernels  {describe_items(entries)}{describe_ages(entries)}")
    console.print(f"Damaged  {len(damaged) or 'none'}")
    console.print(f"Others   {describe_items([item for item in items if not item.is_entry])}")
    console.print(
        "\nWhat torch.compile and Triton make for flashdqn is in this folder, too. What other programs make"
    )
    console.print("is elsewhere, and `flashdqn cache clear` does not remove it:")
    for tool, (variable, default) in TOOL_FOLDERS.items():
        console.print(f"  {tool}: {os.environ.get(variable) or default}  (${variable})")
    return 0


def check_cache(folder: Path, console: SteadyConsole) -> int:
    """Read every file; returns 1 if one is damaged."""
    entries = [item for item in list_items(folder) if item.is_entry]
    damaged = find_damage(entries)
    for path, reason in damaged.items():
        console.print(f"{path}: {reason}")
    console.print(f"{len(entries)} files checked, {len(damaged)} damaged.")
    if damaged:
        console.print("A damaged file is built again when it is needed; `flashdqn cache clear` removes all.")
    return 1 if damaged else 0


def find_damage(entries: list[CacheItem]) -> dict[Path, str]:
    """The files that cannot be believed, and why."""
    damaged = {}
    for item in entries:
        try:
            read_entry(item.path)
        except FileNotFoundError:  # removed by another process
            continue
        except (DamagedEntryError, OSError) as error:
            damaged[item.path] = getattr(error, "strerror", None) or str(error)
    return damaged


def clear_cache(folder: Path, console: SteadyConsole, seconds: float) -> int:
    """Remove what is ours and was not used for so many seconds; returns 1 if something could not be removed."""
    now = time.time()
    old = [item for item in list_items(folder) if not seconds or now - item.used > seconds]
    used = tuple(str(item.path) for item in old if item.is_tool_folder and is_in_use(item.path))
    free = [item for item in old if not (used and str(item.path).startswith(used))]
    kept = [item for item in free if not remove_item(item.path)]
    console.print(f"Removed {describe_items([item for item in free if item not in kept])} from {folder}.")
    for path in used:
        console.print(f"Kept {path}, because a process uses it.")
    if kept:
        console.print(f"{len(kept)} could not be removed, for example {kept[0].path}.")
    return 1 if kept else 0


def describe_items(items: list[CacheItem]) -> str:
    """Number and size."""
    return (
        f"{len(items)} file{'' if len(items) == 1 else 's'}, {sum(item.size for item in items) / 1e6:,.1f} MB"
    )


def describe_ages(items: list[CacheItem]) -> str:
    """When the items were used."""
    if not items:
        return ""
    days = sorted((time.time() - item.used) / DAY for item in items)
    return f", last used {max(days[0], 0):.0f} to {max(days[-1], 0):.0f} days ago"
