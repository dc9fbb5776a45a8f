"""The folders of torch.compile and Triton: private, checked, and never taken from a process that uses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cache_fixture import cache

from flashdqn.compute import tool_caches
from flashdqn.compute.tool_caches import guard_tool_cache, is_in_use, record_tool_caches

__all__ = ["cache"]
VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(tool_caches, "_guarded", {})
    monkeypatch.setattr(tool_caches, "_chosen", {})
    monkeypatch.setattr(tool_caches, "_asked", set())
    monkeypatch.setattr(tool_caches.atexit, "register", lambda *_, **__: None)
    yield
    end_process()


def start_process() -> Path:
    tool_caches._chosen.clear()
    os.environ[VARIABLE] = "/tmp/what PyTorch has chosen"
    guard_tool_cache("inductor")
    return Path(os.environ[VARIABLE])


def end_process(killed: bool = False) -> None:
    if not killed:
        record_tool_caches()
    for handle in tool_caches._guarded.values():
        os.close(handle)
    tool_caches._guarded.clear()


@pytest.fixture
def folder(cache: Path) -> Path:
    """A folder that one process has filled."""
    folder = start_process()
    (folder / "ab").mkdir()
    (folder / "ab" / "code.so").write_bytes(b"code")
    (folder / "graph").write_bytes(b"graph")
    end_process()
    assert folder == cache / "flashdqn_inductor"
    assert folder.stat().st_mode & 0o777 == 0o700
    return folder


def list_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if not path.is_dir())


def test_whole_files_stay(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert start_process() == folder
    assert list_files(folder) == ["code.so", "graph"]
    assert not caplog.records


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": lambda folder: os.truncate(folder / "ab" / "code.so", 2),
    "changed": lambda folder: (folder / "ab" / "code.so").write_bytes(b"c0de"),
    "a link": lambda folder: ((folder / "graph").unlink(), (folder / "graph").symlink_to("ab/code.so")),
    "a pipe": lambda folder: ((folder / "graph").unlink(), os.mkfifo(folder / "graph")),
    "the list": lambda folder: folder.with_suffix(".json").write_text("{"),
    "no list": lambda folder: folder.with_suffix(".json").unlink(),
    "another list": lambda folder: folder.with_suffix(".json").write_text('{"files": {"graph": 3}}'),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_empties_the_folder(folder: Path, damage: Callable[[Path], object]) -> None:
    damage(folder)
    assert start_process() == folder
    assert list_files(folder) == []


def test_what_a_killed_process_left_is_removed(folder: Path) -> None:
    start_process()
    (folder / "ab" / "half.so").write_bytes(b"ha")
    end_process(killed=True)
    start_process()
    assert list_files(folder) == ["code.so", "graph"]


def test_a_folder_in_use_is_left_alone(folder: Path) -> None:
    start_process()
    (folder / "new").write_bytes(b"n")
    first, tool_caches._guarded = tool_caches._guarded, {}
    assert is_in_use(folder)
    assert start_process() == folder
    assert list_files(folder) == ["code.so", "graph", "new"]
    for handle in first.values():
        os.close(handle)


def test_the_users_own_folder_is_left_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/mine")
    monkeypatch.setattr(tool_caches, "_asked", {VARIABLE})
    guard_tool_cache("inductor")
    assert os.environ[VARIABLE] == "/mine"
    assert not cache.exists()


@pytest.mark.parametrize("kind", ["a file", "a link", "a pipe"])
def test_what_is_not_a_folder_is_replaced(cache: Path, kind: str) -> None:
    cache.mkdir()
    path = cache / "flashdqn_inductor"
    (cache.parent / "precious").mkdir()
    if kind == "a file":
        path.touch()
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(cache.parent / "precious")
    assert start_process() == path
    assert path.is_dir()
    assert not path.is_symlink()
    assert (cache.parent / "precious").is_dir()


@pytest.mark.parametrize("why", ["no cache", "lock is a folder", "list is a folder"])
def test_a_temporary_folder_if_ours_cannot_be_used(cache: Path, why: str) -> None:
    if why == "no cache":
        cache.touch()
    else:
        (cache / f"flashdqn_inductor.{'lock' if 'lock' in why else 'json'}").mkdir(parents=True)
    folder = start_process()
    assert folder.is_dir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (cache in folder.parents) == (why == "list is a folder")
    record_tool_caches()
