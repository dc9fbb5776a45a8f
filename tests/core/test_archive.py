"""Files that hold others: what is written comes back, and nothing else is believed."""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from pathlib import Path

import pytest

from flashdqn.core.archive import read_archive, write_archive

PARTS = {"a.json": b"{}", "b.bin": bytes(range(256))}
MOST = 10**6


def make_zip(*entries: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as file:
        warnings.simplefilter("ignore")  # of two entries with one name
        for name, data in entries:
            file.writestr(zipfile.ZipInfo(name), data, method)
    return buffer.getvalue()


def test_there_and_back_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("one.zip", "two.zip"):
        write_archive(tmp_path / name, PARTS)
    assert read_archive(tmp_path / "one.zip", PARTS, MOST) == PARTS
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


BOMB = make_zip(("a.json", b"{}"), ("b.bin", bytes(10**7)), method=zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a whole zip file"),
        (b"hello", "not a whole zip file"),
        (make_zip(*PARTS.items())[:-30], "not a whole zip file"),
        (BOMB, "compressed"),
        (make_zip(("a.json", b"{}")), r"must hold a\.json and b\.bin"),
        (make_zip(*PARTS.items(), ("../c", b"")), "and nothing else"),
        (make_zip(("a.json", b"{}"), ("../b.bin", b"")), "and nothing else"),
        (make_zip(("a.json", b"{}"), ("/tmp/b.bin", b"")), "and nothing else"),
        (make_zip(("a.json", b"{}"), ("b.bin", b""), ("b.bin", b"")), "and nothing else"),
        (make_zip(*PARTS.items()).replace(bytes(range(256)), bytes(256)), "not a whole zip file"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_archive(path, PARTS, MOST)
    assert [file.name for file in tmp_path.iterdir()] == ["x.zip"]


def test_parts_that_claim_to_be_larger_than_the_file(tmp_path: Path) -> None:
    content = bytearray(make_zip(*PARTS.items()))
    place = content.rindex(b"PK\x01\x02") + 20
    content[place : place + 8] = (2**31).to_bytes(4, "little") * 2
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"larger than the file|not a whole zip"):
        read_archive(tmp_path / "x.zip", PARTS, MOST)


def test_files_that_are_too_large_or_no_files(tmp_path: Path) -> None:
    write_archive(tmp_path / "x.zip", PARTS)
    with pytest.raises(OSError, match="more than 100 bytes"):
        read_archive(tmp_path / "x.zip", PARTS, 100)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="named pipe"):
        read_archive(tmp_path / "pipe", PARTS, MOST)


@pytest.mark.parametrize(("before", "behind"), [(b"#!/bin/sh\n", b""), (b"", b"\0"), (b"", b"more" * 99)])
def test_nothing_may_lie_around_it(tmp_path: Path, before: bytes, behind: bytes) -> None:
    path = tmp_path / "one.zip"
    path.write_bytes(before + make_zip(*PARTS.items()) + behind)
    with pytest.raises(ValueError, match="before or behind"):
        read_archive(path, PARTS, MOST)
