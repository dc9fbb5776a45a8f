"""Files that hold a few others: plain zip files without compression, which unzip and every other tool can open.

Reading believes nothing. The names must be those that are expected, each once. Nothing is unpacked to disk. What is
compressed is refused, so a file is never larger inside than outside.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from flashdqn.core.files import read_plain_file, write_output

#: A date for every entry: the same parts make the same file.
DATE = (2020, 1, 1, 0, 0, 0)
ENCRYPTED = 1
#: How the first entry and the end of a zip file begin, and how many bytes the end has without its comment.
FIRST, END, END_BYTES = b"PK\x03\x04", b"PK\x05\x06", 22


def write_archive(path: Path, parts: Mapping[str, bytes]) -> None:
    """Write a file that holds these parts by name; it is whole, or as it was before."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, data in parts.items():
            file.writestr(zipfile.ZipInfo(name, DATE), data)
    write_output(path, buffer.getvalue())


def read_archive(path: Path, names: Iterable[str], most: int) -> dict[str, bytes]:
    """The parts of a file by name. OSError if it cannot be read, ValueError if it does not hold exactly these."""
    data = read_plain_file(path, follow=True, most=most)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            _require_nothing_around(data, file)
            return _read_parts(file, sorted(names), len(data))
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OverflowError) as error:
        raise ValueError(f"it is not a whole zip file ({error})") from None


def _require_nothing_around(data: bytes, file: zipfile.ZipFile) -> None:
    """Refuse what zip files may have before their first entry and behind their end: another file, for example."""
    end = len(data) - END_BYTES - len(file.comment)
    if not data.startswith(FIRST) or end < 0 or not data.startswith(END, end):
        raise ValueError("something lies before or behind the zip file in it")


def _read_parts(file: zipfile.ZipFile, names: list[str], size: int) -> dict[str, bytes]:
    entries = file.infolist()
    if sorted(entry.filename for entry in entries) != names:
        raise ValueError(f"it must hold {' and '.join(names)}, and nothing else")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & ENCRYPTED:
            raise ValueError(f"{entry.filename} in it is compressed or encrypted, which is never needed")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("its parts claim to be larger than the file")
    return {entry.filename: file.read(entry) for entry in entries}
