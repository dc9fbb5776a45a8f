"""What the package indexes offer that pip is set to: files with their hashes, and the metadata of a wheel."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from functools import cache
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname, urlopen
from zipfile import ZipFile

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

#: The Pythons that the lock is made for.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@dataclass(frozen=True)
class Wheel:
    """One published file."""

    name: str
    url: str
    sha256: str
    version: Version
    tags: frozenset[Tag]

    def runs_on(self, python: str) -> bool:
        """Whether some machine with this Python can install it."""
        return any(fits_python(tag, python) for tag in self.tags)


def fits_python(tag: Tag, python: str) -> bool:
    """Whether the interpreter and ABI of a wheel suit a CPython such as "3.12"."""
    digits = python.replace(".", "")
    if tag.interpreter in ("py3", f"py{digits}"):
        return tag.abi == "none"
    if tag.abi == "abi3" and tag.interpreter.startswith("cp3"):
        return int(tag.interpreter[3:]) <= int(digits[1:])
    return tag.interpreter == f"cp{digits}" and tag.abi in ("none", f"cp{digits}", f"cp{digits}t")


@cache
def find_wheels(project: str) -> dict[Version, list[Wheel]]:
    """All wheels of a project for our Pythons, by version without its local part (2.13.0+cpu is a 2.13.0)."""
    found: dict[str, Wheel] = {}
    for name, url, sha256 in (*list_indexed_files(project), *list_local_files(project)):
        try:
            _, version, _, tags = parse_wheel_filename(name)
        except InvalidWheelFilename:  # an archive of sources, or a name from before there were rules
            continue
        wheel = Wheel(name, url, sha256, Version(version.public), tags)
        if found.setdefault(name, wheel).sha256 != sha256:
            sys.exit(f"Two places offer {name} with different contents. The lock would let both in: stopped.")
    by_version: dict[Version, list[Wheel]] = {}
    for wheel in sorted(found.values(), key=lambda wheel: wheel.name):
        if any(wheel.runs_on(python) for python in PYTHONS):
            by_version.setdefault(wheel.version, []).append(wheel)
    return by_version


def list_indexed_files(project: str) -> Iterator[tuple[str, str, str]]:
    """Name, address and SHA-256 of the files that the indexes list."""
    for index in read_index_urls():
        page = f"{index.rstrip('/')}/{canonicalize_name(project)}/"
        try:
            text = read_url(page + "index.html" if page.startswith("file:") else page).decode("utf-8")
        except (URLError, OSError):  # this index does not have it
            continue
        links = LinkReader()
        links.feed(text)
        for link in links.found:
            url, fragment = urldefrag(urljoin(page, link))
            if fragment.startswith("sha256="):
                yield unquote(urlsplit(url).path.rsplit("/", 1)[-1]), url, fragment.removeprefix("sha256=")


def list_local_files(project: str) -> Iterator[tuple[str, str, str]]:
    """The same for the wheels in the folders of pip's `find-links`."""
    for folder in map(Path, read_pip_setting("find-links")):
        for path in sorted(folder.glob("*.whl")):
            if canonicalize_name(path.name.split("-")[0]) == canonicalize_name(project):
                yield path.name, path.as_uri(), hashlib.sha256(path.read_bytes()).hexdigest()


class LinkReader(HTMLParser):
    """Collects the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep where a link leads to."""
        self.found += [value for key, value in attrs if tag == "a" and key == "href" and value]


def read_index_urls() -> list[str]:
    """The indexes that pip would ask."""
    from pip._internal.models.index import PyPI  # the one that pip asks if it is set to none

    return [*(read_pip_setting("index-url")[-1:] or [PyPI.simple_url]), *read_pip_setting("extra-index-url")]


def read_pip_setting(name: str) -> list[str]:
    """The values of one of pip's settings, from its files and from the environment."""
    values: dict[str, None] = {}
    for line in list_pip_settings():
        key, _, value = line.partition("=")
        if key.rsplit(".", 1)[-1] == name:
            values.update(dict.fromkeys(value.strip("'\"").split()))
    return list(values)


@cache
def list_pip_settings() -> list[str]:
    """What `pip config list` says."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def read_url(url: str) -> bytes:
    """What lies at an address."""
    certificates = (read_pip_setting("cert") or [None])[0]
    with urlopen(url, timeout=120, context=ssl.create_default_context(cafile=certificates)) as answer:
        content: bytes = answer.read()
    return content


@cache
def read_metadata(project: str, version: Version) -> Message:
    """Name, license and requirements, from a published wheel: one for Linux if they differ by platform."""
    wheels = find_wheels(project).get(version)
    if not wheels:
        return Message()  # nothing that we could install
    wheel = min(
        wheels, key=lambda wheel: ("+" in wheel.name, "linux" not in wheel.name, "x86_64" not in wheel.name)
    )
    try:
        text = read_url(wheel.url + ".metadata").decode("utf-8")
    except (URLError, OSError):  # an index that does not offer it by itself
        text = read_metadata_inside(wheel)
    return Parser().parsestr(text)


def read_metadata_inside(wheel: Wheel) -> str:
    """The metadata from the wheel itself."""
    if wheel.url.startswith("file:"):
        content = Path(url2pathname(urlsplit(wheel.url).path)).read_bytes()
    else:
        content = read_url(wheel.url)
    with ZipFile(BytesIO(content)) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode("utf-8")
