"""`flashdqn cache`: what it shows, and that it removes nothing but our files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashdqn.cli.main import dispatch_command
from flashdqn.compute.cache_entries import pack_entry
from flashdqn.compute.tool_caches import lock_folder
from flashdqn.core.errors import ConfigError

MISTAKES = (
    *("claer", "clear now", "--all", "show --older-than 3d", "clear --older-than 3", "clear --older-than x"),
    *("clear --older-than -3d", "clear --older-than " + "9" * 400 + "d"),
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two kernels, one of them damaged, and something else."""
    monkeypatch.setenv("FLASHDQN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache"
    folder.mkdir()
    for name in ("good", "bad"):
        path = folder / f"flashdqn_kernel_{name}.kernel"
        path.write_bytes(pack_entry("key", b"code"))
        path.chmod(0o600)
    os.truncate(path, 50)
    (folder / "thesis.tex").touch()
    (folder / "flashdqn_inductor").mkdir()
    (folder / "flashdqn_inductor" / "code.so").write_bytes(b"code")
    return folder


def test_shown(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch_command(["cache"]) == 0
    shown = capsys.readouterr().out
    assert str(cache) in shown
    assert "Kernels  2 files" in shown
    assert "Damaged  1" in shown
    assert "~/.triton/cache" in shown or "$TRITON_CACHE_DIR" in shown


def test_checked(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch_command(["cache", "check"]) == 1
    shown = capsys.readouterr().out
    assert "flashdqn_kernel_bad.kernel: it does not match its checksum" in shown
    assert "2 files checked, 1 damaged." in shown
    (cache / "flashdqn_kernel_bad.kernel").unlink()
    assert dispatch_command(["cache", "check"]) == 0


def test_cleared(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch_command(["cache", "clear", "--older-than", "1h"]) == 0
    assert "Removed 0 files" in capsys.readouterr().out
    assert dispatch_command(["cache", "clear"]) == 0
    assert "Removed 3 files" in capsys.readouterr().out
    assert [path.name for path in cache.iterdir()] == ["thesis.tex"]
    assert dispatch_command(["cache", "clear"]) == 0


def test_what_a_process_uses_is_kept(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handle, _ = lock_folder(cache / "flashdqn_inductor")
    try:
        assert dispatch_command(["cache", "clear"]) == 0
    finally:
        os.close(handle)
    assert "because a process uses it" in capsys.readouterr().out
    assert (cache / "flashdqn_inductor" / "code.so").exists()


@pytest.mark.parametrize("kind", ["missing", "file", "link to nowhere", "pipe"])
@pytest.mark.parametrize("action", ["show", "check", "clear"])
def test_no_folder_is_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, action: str
) -> None:
    path = tmp_path / "cache"
    if kind == "file":
        path.touch()
    elif kind == "link to nowhere":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    monkeypatch.setenv("FLASHDQN_CACHE", str(path))
    assert dispatch_command(["cache", action]) == 0
    assert os.path.lexists(path) == (kind != "missing")


@pytest.mark.parametrize(
    "words",
    [words.split() for words in MISTAKES],
    ids=" ".join,
)
def test_mistakes_are_one_sentence(cache: Path, words: list[str]) -> None:
    with pytest.raises(ConfigError):
        dispatch_command(["cache", *words])
    assert len(list(cache.iterdir())) == 4
