"""Files that commands write at the end of their work, and JSON that they read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from flashdqn.core.errors import ConfigError, StorageError
from flashdqn.core.files import (
    check_writable_file,
    is_device_path,
    open_plain_file,
    parse_json,
    read_json_object,
    read_plain_file,
    read_plain_text,
    read_signed_json,
    remove_leftovers,
    replace_file,
    write_signed_json,
    write_text_atomically,
)


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
    with pytest.raises(ConfigError, match="it has a zero byte in it"):
        check_writable_file(Path("a\0b.zip"))
    asked = []

    def deny(path: Path, mode: int) -> bool:  # root may write everywhere
        asked.append(path)
        return False

    monkeypatch.setattr(os, "access", deny)
    (tmp_path / "there.json").write_text("")
    with pytest.raises(ConfigError, match=r"there\.json' cannot be written to"):
        check_writable_file(tmp_path / "there.json")
    with pytest.raises(ConfigError, match="x' cannot be written to"):  # tried, and not only asked
        check_writable_file(Path("/proc/x"))
    assert asked == [tmp_path / "there.json"]


def test_an_error_while_a_file_is_replaced_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "some.json" / "inside").mkdir(parents=True)
    for path in (tmp_path / "some.json", tmp_path / "no" / "some.json"):
        with pytest.raises(OSError, match="directory") as caught:
            write_text_atomically(path, "{}")
        assert caught.value.filename == str(path)
    assert [path.name for path in tmp_path.iterdir()] == ["some.json"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_disk_that_takes_no_file_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match=os.strerror(number)):
        check_writable_file(tmp_path / "new.json")


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"3", b"null", b"\xff\xfe"])
def test_json_that_is_no_object_holds_nothing(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "some.json"
    assert read_json_object(path) == {}
    path.write_bytes(text)
    assert read_json_object(path) == {}
    path.write_text('{"a": [1]}')
    assert read_json_object(path) == {"a": [1]}


def test_a_pipe_a_device_and_a_link_are_refused_at_once(tmp_path: Path) -> None:
    pipe, link, there = tmp_path / "pipe", tmp_path / "link", tmp_path / "there"
    os.mkfifo(pipe)
    there.write_text("text")
    link.symlink_to(there)
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        with pytest.raises(OSError, match="is a named pipe, not a file"):
            open_plain_file(pipe, flags)
    with pytest.raises(OSError, match="is a device, not a file"):
        read_plain_file(Path("/dev/zero"))
    with pytest.raises(OSError, match=r"(folder, not a file|Is a directory)"):
        read_plain_file(tmp_path)
    with pytest.raises(OSError, match="is a link"):
        read_plain_text(link)
    assert read_plain_text(link, follow=True) == "text"
    with pytest.raises(FileNotFoundError):
        read_plain_file(tmp_path / "missing")


def test_what_the_shell_pipes_in_can_be_read() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"text")
    os.close(theirs)
    assert read_plain_text(Path(f"/dev/fd/{ours}"), follow=True) == "text"
    os.close(ours)


def test_a_written_file_replaces_a_planted_link(tmp_path: Path) -> None:
    precious, path = tmp_path / "precious", tmp_path / "report.html"
    precious.write_text("mine")
    path.symlink_to(precious)
    write_text_atomically(path, "page")
    assert precious.read_text() == "mine"
    assert not path.is_symlink()
    assert path.read_text() == "page"
    assert sorted(tmp_path.iterdir()) == [precious, path]


def test_a_new_file_has_the_rights_that_the_user_asks_for(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text_atomically(tmp_path / "file", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def write_half() -> None:
        with replace_file(path) as temporary:
            assert temporary.suffix == ".csv"
            temporary.write_text("ha")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_are_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / ".0123.writing.csv").write_text("half")
    (tmp_path / ".4567.writing").symlink_to(precious)
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [precious]
    assert precious.read_text() == "mine"


def test_a_changed_value_does_not_match_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    write_signed_json(path, {"gamma": 0.99, "name": "ε"})
    assert read_signed_json(path) == {"gamma": 0.99, "name": "ε"}
    path.write_text(path.read_text().replace("0.99", "0.09"))
    with pytest.raises(ValueError, match="does not match its own checksum"):
        read_signed_json(path)
    assert read_json_object(path) == {}
    path.write_text('{"gamma": 0.09}')  # as older versions wrote it
    assert read_signed_json(path) == {"gamma": 0.09}


def test_json_that_nests_too_deeply_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(path.read_text())
    assert read_json_object(path) == {}


def test_plain_files_below_dev_are_not_devices() -> None:
    assert is_device_path(Path("/dev/stdout"))
    assert is_device_path(Path("/dev/fd/5"))
    assert not is_device_path(Path("/dev/shm/report.html"))
    assert not is_device_path(Path("/dev/../dev//shm/report.html"))


def test_a_name_that_comes_twice_is_found_among_many() -> None:
    """In one pass: with a million names, comparing all of them takes hours."""
    names = [f'"{number:x}":0' for number in range(300_000)]
    with pytest.raises(ValueError, match="it has '493df' twice"):
        parse_json("{" + ",".join(names) + ',"493df":1}', unique=True)
