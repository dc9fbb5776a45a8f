"""Which folder is believed, and which is made private."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cache_fixture import HIT, MISS, cache, start_again

from flashdqn.compute import cache_entries
from flashdqn.compute.cache_entries import DAY, list_items, remove_item, remove_old_items
from flashdqn.compute.cache_folder import (
    explain_distrusted_owner,
    find_cache_folder,
    make_private_folder,
    name_cache_folder,
)

__all__ = ["cache"]


BELIEVED = [("me", 0o700), ("me", 0o755), ("root", 0o755)]
DOUBTED = [("me", 0o770), ("me", 0o702), ("another", 0o700), ("another", 0o755), ("root", 0o777)]


def test_old_folders_of_ours_become_private(cache: Path) -> None:
    cache.mkdir()
    (cache / "flashdqn_kernel_play_0123.py").touch()
    (cache / "__pycache__").mkdir()
    cache.chmod(0o777)
    assert find_cache_folder() == cache
    assert cache.stat().st_mode & 0o777 == 0o700


def test_a_shared_folder_with_other_things_is_neither_believed_nor_changed(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.mkdir()
    (cache / "thesis.tex").touch()
    cache.chmod(0o777)
    assert find_cache_folder() is None
    assert "other users can write there" in caplog.text
    assert cache.stat().st_mode & 0o777 == 0o777
    assert start_again() == MISS


def test_a_sticky_folder_stays_open(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o1777)
    assert find_cache_folder() is None
    assert cache.stat().st_mode & 0o7777 == 0o1777


@pytest.mark.parametrize(
    ("owner", "mode", "believed"),
    [(*who, True) for who in BELIEVED] + [(*who, False) for who in DOUBTED],
)
def test_whom_we_believe(monkeypatch: pytest.MonkeyPatch, owner: str, mode: int, believed: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    owner_id = {"me": 1000, "root": 0, "another": 1001}[owner]
    found = os.stat_result((0o40000 | mode, 0, 0, 1, owner_id, 1000, 0, 0, 0, 0))
    assert (explain_distrusted_owner(found) is None) == believed


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_the_files_of_another_user_are_not_believed(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    start_again()
    (entry,) = cache.glob("*.kernel")
    os.chown(entry, 12345, 12345)
    assert (start_again(), start_again()) == (MISS, HIT)
    assert "another user" in caplog.text
    os.chown(cache, 12345, 12345)
    assert start_again() == start_again() == MISS


@pytest.mark.parametrize("kind", ["file", "below a file", "link to nowhere", "too long", "loop"])
def test_a_place_where_no_folder_can_be(
    cache: Path, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = cache / "below" if kind == "below a file" else cache
    if "file" in kind:
        cache.touch()
    elif kind == "too long":
        path = cache / ("x" * 300)
    else:
        cache.symlink_to("nowhere/at/all" if kind == "link to nowhere" else cache)
    monkeypatch.setenv("FLASHDQN_CACHE", str(path))
    assert start_again() == start_again() == MISS
    assert "is not used" in caplog.text


def test_no_home(monkeypatch: pytest.MonkeyPatch, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("FLASHDQN_CACHE")
    monkeypatch.setattr(Path, "expanduser", fail)
    assert start_again() == MISS
    assert "Could not determine home directory" in caplog.text


def test_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    for asked, path in {
        "": Path("/home/ann/.cache/flashdqn/kernels"),
        " ": Path("/home/ann/.cache/flashdqn/kernels"),
        "here": tmp_path / "here",
        "~/there": Path("/home/ann/there"),
    }.items():
        monkeypatch.setenv("FLASHDQN_CACHE", asked)
        assert name_cache_folder() == path


def test_missing_folders_above_are_private_too(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "a" / "b")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]


def make_file(path: Path, size: int, days: float, now: float) -> None:
    path.write_bytes(bytes(size))
    os.utime(path, (now - days * DAY,) * 2)


def test_what_nobody_uses_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = (tmp_path.stat()).st_mtime + 1000 * DAY  # file systems set the change time themselves
    monkeypatch.setattr(cache_entries.time, "time", lambda: now)
    for name, days in {"new": 1, "used": 80, "unused": 100}.items():
        make_file(tmp_path / f"flashdqn_kernel_{name}.kernel", 400, days, now)
    make_file(tmp_path / ".0123456789abcdef.writing.kernel", 10, 1, now)
    make_file(tmp_path / "of somebody else", 10, 900, now)
    make_file(tmp_path / "warm-up.json", 10, 900, now)
    remove_old_items(tmp_path)
    left = {"flashdqn_kernel_new.kernel", "flashdqn_kernel_used.kernel", "of somebody else", "warm-up.json"}
    assert {path.name for path in tmp_path.iterdir()} == left
    monkeypatch.setattr(cache_entries, "MOST_BYTES", 500)
    remove_old_items(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == left - {"flashdqn_kernel_used.kernel"}


def test_only_what_is_ours_is_listed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "flashdqn_kernel_play_1.kernel").touch()
    (tmp_path / "__pycache__").mkdir()
    assert [item.path.name for item in list_items(tmp_path)] == [
        "__pycache__",
        "flashdqn_kernel_play_1.kernel",
    ]
    (tmp_path / "game.py").touch()
    (tmp_path / "triton").mkdir()
    assert [item.path.name for item in list_items(tmp_path)] == ["flashdqn_kernel_play_1.kernel"]


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "flashdqn_inductor").symlink_to("kept")
    assert remove_item(tmp_path / "flashdqn_inductor")
    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "file"]
