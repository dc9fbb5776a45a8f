"""Damage to the kernel cache, and disks and owners that do not let us use it: the kernel must run all the same.

Each fault is tried in a process of its own, because a flipped byte in machine code may end it. A process loads or
compiles two small kernels, one of them for threads, and checks what they compute.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fault_kinds.tally import Tally, scale_count

SOURCE = Path(__file__).parents[2] / "src"

GAME = """
from flashdqn.compute.gemm import with_fast_sums
from flashdqn.compute.kernels import scalar

@with_fast_sums
def rule(x):
    return x + 1 if x not in (3, 5) else x

@scalar
def play(i, x):
    x[i] = rule(x[i]) + 1

@scalar
def share(worker, threads, x):
    for i in range(worker, x.size, threads):
        x[i] *= 3
"""

PROGRAM = """
import errno, os, sys
import numpy as np, torch
if len(sys.argv) > 1:
    # The disk is full from the given operation on.
    left, real = int(sys.argv[1]), {"open": os.open, "fsync": os.fsync, "replace": os.replace}
    def wrap(name):
        def call(*words, **more):
            global left
            left -= 1
            if left < 0 and (name != "open" or words[1] & os.O_CREAT):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real[name](*words, **more)
        return call
    for name in real:
        setattr(os, name, wrap(name))
from flashdqn.compute.kernels import Kernel
from flashdqn.compute.native import compile_for_threads
from game import play, share
x = torch.zeros(9, dtype=torch.int64)
launch = Kernel(play).bind(9, x)
launch()
array = np.ones(9, np.int64)
crew = compile_for_threads(share, (array,))
crew(2, array)
assert x.tolist() == [2] * 9 and array.tolist() == [3] * 9
print("hits", sum(sum(driver.stats.cache_hits.values()) for driver in (launch.func, crew)))
"""


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """Try all kinds of faults."""
    (folder / "game.py").write_text(GAME)
    (folder / "program.py").write_text(PROGRAM)
    whole = folder / "whole"
    first = run_program(folder, whole)
    assert first is None, first
    return [
        try_damage(folder, whole, scale_count(200, effort, least=2)),
        try_places(folder, whole, effort),
        try_full_disk(folder, scale_count(16, effort)),
        try_starts_at_once(folder, whole, scale_count(5, effort)),
    ]


def run_program(folder: Path, cache: Path | str, *words: str, hash_seed: int = 0) -> str | None:
    """What went wrong, or None."""
    environment = os.environ | {
        "FLASHDQN_CACHE": str(cache),
        "PYTHONPATH": str(SOURCE),
        "PYTHONHASHSEED": str(hash_seed),
        "OMP_NUM_THREADS": "2",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "program.py", *words]
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    if ended.returncode or "Traceback" in ended.stderr or len(ended.stderr.splitlines()) > 1:
        return f"exit code {ended.returncode}: {ended.stderr[-300:]}"
    return None


WAYS = ("cut", "flip", "flip", "flip", "zero", "empty", "append", "folder", "pipe", "link", "loose")


def damage_file(path: Path, chance: random.Random) -> str:
    """Damage a file in one of many ways; says how."""
    data = bytearray(path.read_bytes())
    way = chance.choice(WAYS)
    at = chance.randrange(len(data))
    if way in ("folder", "pipe", "link"):
        path.unlink()
        if way == "folder":
            path.mkdir()
        elif way == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/etc/hosts")
    elif way == "loose":
        path.chmod(0o666)
    else:
        if way == "flip":
            data[at] ^= 1 << chance.randrange(8)
        elif way == "zero":
            data[at : at + 512] = bytes(min(512, len(data) - at))
        path.write_bytes({"cut": data[:at], "empty": b"", "append": data + b"\0"}.get(way, data))
    return f"{way} at {at} of {path.name}"


def try_damage(folder: Path, whole: Path, count: int) -> Tally:
    """Damage one file of the cache; the next start must work, and the one after it, too."""
    tally = Tally("kernel cache: damaged files")
    for k in range(count):
        chance, cache = random.Random(k), folder / "damaged"
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(whole, cache)
        how = damage_file(chance.choice(sorted(cache.iterdir())), chance)
        wrong = run_program(folder, cache, hash_seed=k) or (
            run_program(folder, cache) if k % 8 == 0 else None
        )
        tally.check(wrong is None, f"{how}: {wrong}")
    return tally


def try_places(folder: Path, whole: Path, effort: float) -> Tally:
    """Folders that cannot be used or believed."""
    tally = Tally("kernel cache: places and owners")
    places: dict[str, Callable[[Path], object]] = {
        "a file": lambda path: path.touch(),
        "a link to nowhere": lambda path: path.symlink_to("nowhere/at/all"),
        "a pipe": os.mkfifo,
        "a link to itself": lambda path: path.symlink_to(path),
        "read-only": lambda path: (shutil.copytree(whole, path), path.chmod(0o500)),
        "open to all": lambda path: (shutil.copytree(whole, path), path.chmod(0o777)),
        "of another user": lambda path: (shutil.copytree(whole, path), give_away(path)),
    }
    for k, (name, make) in enumerate(places.items()):
        if k % max(1, round(0.1 / effort)) == 0:
            path = folder / f"place-{k}"
            make(path)
            wrong = run_program(folder, path)
            tally.check(wrong is None, f"{name}: {wrong}")
            if path.is_dir():
                path.chmod(0o700)
    for name in ("", "relative", "~nobody-of-this-name/x", "x" * 300, "/proc/self/cache", "/dev/null/x"):
        if effort >= 0.1:
            wrong = run_program(folder, name)
            tally.check(wrong is None, f"FLASHDQN_CACHE={name[:40]}: {wrong}")
    return tally


def give_away(path: Path) -> None:
    """Make a folder another user's, where we may."""
    if os.geteuid() == 0:
        for found in (path, *path.iterdir()):
            os.chown(found, 12345, 12345)


def try_full_disk(folder: Path, count: int) -> Tally:
    """The disk is full from the n-th operation on."""
    tally = Tally("kernel cache: full disk")
    for k in range(count):
        cache = folder / f"full-{k}"
        wrong = run_program(folder, cache, str(k)) or run_program(folder, cache)
        tally.check(wrong is None, f"full from operation {k}: {wrong}")
    return tally


def try_starts_at_once(folder: Path, whole: Path, count: int) -> Tally:
    """Four processes start at once, on an empty cache or a damaged one."""
    tally = Tally("kernel cache: four starts at once")
    for k in range(count):
        cache, chance = folder / f"crowd-{k}", random.Random(k)
        if k % 2:
            shutil.copytree(whole, cache)
            for path in sorted(cache.iterdir()):
                damage_file(path, chance)
        with ThreadPoolExecutor(4) as pool:
            for wrong in pool.map(lambda seed: run_program(folder, cache, hash_seed=seed), range(4)):  # noqa: B023
                tally.check(wrong is None, f"round {k}: {wrong}")
    return tally
