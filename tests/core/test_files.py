"""Files that commands write at the end of their work, and JSON that they read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashdqn.core.errors import ConfigError
from flashdqn.core.files import check_writable_file, read_json_object


def test_a_file_that_can_be_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "there.json"
    there.write_text("{}")
    for path in (there, tmp_path / "new.json", Path("new.json")):
        check_writable_file(path)
    assert there.read_text() == "{}"
    assert not (tmp_path / "new.json").exists()


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="it is a folder"):
        check_writable_file(tmp_path)
    with pytest.raises(ConfigError, match=r"There is no folder '.*no' to write x.json to"):
        check_writable_file(tmp_path / "no" / "x.json")
    asked = []

    def deny(path: Path, mode: int) -> bool:  # root may write everywhere
        asked.append(path)
        return False

    monkeypatch.setattr(os, "access", deny)
    (tmp_path / "there.json").write_text("")
    with pytest.raises(ConfigError, match="there.json' cannot be written to"):
        check_writable_file(tmp_path / "there.json")
    with pytest.raises(ConfigError, match="x' cannot be written to"):  # tried, and not only asked
        check_writable_file(Path("/proc/x"))
    assert asked == [tmp_path / "there.json"]


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"3", b"null", b"\xff\xfe"])
def test_json_that_is_no_object_holds_nothing(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "some.json"
    assert read_json_object(path) == {}
    path.write_bytes(text)
    assert read_json_object(path) == {}
    path.write_text('{"a": [1]}')
    assert read_json_object(path) == {"a": [1]}
