"""Whatever happens to the kernel cache: the kernel runs, and the user reads one line."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cache_fixture import (
    HIT,
    MISS,
    VECTOR,
    cache,
    find_only_entry,
    forget_processes_past,
    start_again,
    subtract_from,
)

from flashdqn.compute import kernel_cache
from flashdqn.compute.cache_entries import LARGEST, pack_entry
from flashdqn.compute.kernel_cache import lock_driver
from flashdqn.compute.native import compile_native

__all__ = ["cache"]


def flip_byte(at: float) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(at * (len(data) - 1))] ^= 0x10
        path.write_bytes(data)

    return flip


def cut(keep: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(keep * path.stat().st_size))


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)


def replace_by_other_kernel(path: Path) -> None:
    compile_native(subtract_from, (VECTOR, VECTOR))
    (other,) = (found for found in path.parent.glob("*.kernel") if found != path)
    other.replace(path)


class Bomb:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("bomb"),)


def replace_by_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb()))


def replace_by_other_key(path: Path) -> None:
    path.write_bytes(pack_entry("another key", pickle.dumps(Bomb())))


def replace_by_garbage_with_checksum(path: Path) -> None:
    start = path.read_bytes().split(b"\n")[2]
    path.write_bytes(pack_entry(__import__("json").loads(start)["key"], b"\x80\x05garbage"))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "emptied": cut(0),
    "cut in the first line": cut(0.0003),
    "cut in the middle": cut(0.5),
    "last byte gone": cut(0.99999),
    "first byte": flip_byte(0),
    "checksum": lambda path: path.write_bytes(path.read_bytes().replace(b"\n", b"\nf", 1)),
    "key": flip_byte(0.01),
    "machine code": flip_byte(0.5),
    "last byte": flip_byte(1),
    "more at the end": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "huge": lambda path: os.truncate(path, LARGEST + 1),
    "a link": replace_by_link,
    "a pipe": replace_by_pipe,
    "a socket": replace_by_socket,
    "another kernel": replace_by_other_kernel,
    "a pickle": replace_by_pickle,
    "another key": replace_by_other_key,
    "garbage with a checksum": replace_by_garbage_with_checksum,
    "others may write it": lambda path: path.chmod(0o666),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_built_again(
    cache: Path,
    damage: Callable[[Path], object],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert start_again() == MISS
    damage(find_only_entry(cache))
    caplog.clear()
    assert start_again() == MISS
    assert [record.message.count("\n") for record in caplog.records] == [0]
    assert str(cache) in caplog.text
    assert start_again() == HIT
    assert not Path("bomb").exists()


def test_a_folder_in_place_of_a_file_is_no_reason_to_stop(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start_again()
    entry = find_only_entry(cache)
    entry.unlink()
    (entry / "below").mkdir(parents=True)
    assert start_again() == start_again() == MISS
    assert "cannot be kept" in caplog.text
    (entry / "below").rmdir()
    assert (start_again(), start_again()) == (MISS, HIT)


def test_it_is_private(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0)
    try:
        start_again()
    finally:
        os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in cache.iterdir()} == {0o600}


FULL = {
    "open": (os, "open", lambda path, flags, *_: flags & os.O_CREAT),
    "sync": (os, "fsync", lambda *_: True),
    "write": (Path, "write_bytes", lambda *_: True),
    "rename": (Path, "replace", lambda *_: True),
    "mkdir": (Path, "mkdir", lambda *_: True),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("what", FULL)
def test_a_full_or_broken_disk_means_a_slower_start(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str, code: int
) -> None:
    owner, name, applies = FULL[what]
    real = getattr(owner, name)

    def fail(*arguments: Any, **options: Any) -> Any:
        if applies(*arguments):
            raise OSError(code, os.strerror(code))
        return real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        assert start_again() == MISS
    assert len(caplog.records) == 1
    assert not cache.exists() or list(cache.glob(".*")) == []
    assert (start_again(), start_again()) == (MISS, HIT)


def test_a_cache_that_vanishes_is_made_again(cache: Path) -> None:
    start_again()
    shutil.rmtree(cache)
    compile_native(subtract_from, (VECTOR, VECTOR, VECTOR)[:2])
    assert (start_again(), start_again()) == (MISS, HIT)


def test_numbas_own_settings_do_not_matter(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "numbas"))
    assert (start_again(), start_again()) == (MISS, HIT)
    assert not (tmp_path / "numbas").exists()


def spoil_lock(cache: Path, how: str) -> None:
    driver = compile_native(subtract_from, (VECTOR, VECTOR))
    lock = cache / f"{driver._cache.name}.lock"
    if how == "folder":
        lock.mkdir()
    elif how == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(cache.parent / "other")


@pytest.mark.parametrize("how", ["folder", "pipe", "link"])
def test_a_spoiled_lock_is_not_waited_for(cache: Path, how: str) -> None:
    forget_processes_past()
    spoil_lock(cache, how)
    driver = compile_native(subtract_from, (VECTOR, VECTOR))
    with lock_driver(driver):
        pass
    assert not (cache.parent / "other").exists()
    assert (cache / f"{driver._cache.name}.lock").is_symlink() == (how == "link")


def test_one_process_compiles_and_a_hanging_one_is_not_waited_for(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "LOCK_SECONDS", 0.05)
    driver = compile_native(subtract_from, (VECTOR, VECTOR))
    lock = cache / f"{driver._cache.name}.lock"
    with lock_driver(driver):
        with lock.open("a") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with lock_driver(driver):
            assert lock.exists()
    assert not lock.exists()


def test_a_file_system_without_locks(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    assert (start_again(), start_again()) == (MISS, HIT)
