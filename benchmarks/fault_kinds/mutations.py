"""Ways to damage a file of a run, or a whole checkpoint: each changes what lies at a path."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

#: Settings that stay within what a training allows, so that only a checksum can notice them.
PLAUSIBLE = ((rb'"gamma": [\d.]+', b'"gamma": 0.09'), (rb'"lr": [\d.e-]+', b'"lr": 0.5'), (rb"0\.\d", b"0.7"))


@dataclass(frozen=True)
class Place:
    """A file to damage, and what else the damage may use."""

    path: Path
    run: Path
    other_run: Path  # of another seed, with the same names in it
    victim: Path  # somebody's file outside, which nothing may change
    chance: random.Random

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @property
    def siblings(self) -> list[Path]:
        """Files of the same name in other checkpoints; else other files of the run."""
        same = [path for path in self.run.rglob(self.path.name) if path != self.path]
        return sorted(same or [path for path in self.run.glob("*.*") if path.is_file() and path != self.path])

    def write(self, data: bytes) -> None:
        self.path.write_bytes(data)

    def replace(self, make: Callable[[Path], object]) -> None:
        self.path.unlink()
        make(self.path)


def flip_bit(place: Place) -> None:
    data = bytearray(place.data or b"\0")
    data[place.chance.randrange(len(data))] ^= 1 << place.chance.randrange(8)
    place.write(bytes(data))


def flip_bit_at_end(place: Place) -> None:
    data = bytearray(place.data or b"\0")
    data[-place.chance.randint(1, min(40, len(data)))] ^= 1 << place.chance.randrange(7)
    place.write(bytes(data))


def cut_anywhere(place: Place) -> None:
    place.write(place.data[: place.chance.randrange(len(place.data) or 1)])


def cut_last_byte(place: Place) -> None:
    place.write(place.data[:-1])


def cut_to_a_line(place: Place) -> None:
    lines = place.data.splitlines(keepends=True)
    place.write(b"".join(lines[: place.chance.randint(0, max(0, len(lines) - 1))]))


def empty(place: Place) -> None:
    place.write(b"")


def zero_block(place: Place) -> None:
    data = bytearray(place.data)
    start = place.chance.randrange(len(data) or 1)
    data[start : start + 64] = bytes(len(data[start : start + 64]))
    place.write(bytes(data))


def zero_all(place: Place) -> None:
    place.write(bytes(len(place.data)))


def fill_at_random(place: Place) -> None:
    place.write(place.chance.randbytes(len(place.data) or 64))


def append_garbage(place: Place) -> None:
    place.write(place.data + place.chance.choice((b"\0" * 100, b"garbage\n", b"}", b",,,,\n", b"\xff\xfe")))


def double(place: Place) -> None:
    place.write(place.data + place.data)


def double_last_line(place: Place) -> None:
    lines = place.data.splitlines(keepends=True)
    place.write(place.data + (lines[-1] if lines else b"\n"))


def use_crlf(place: Place) -> None:
    place.write(place.data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))


def use_huge_numbers(place: Place) -> None:
    numbers = list(re.finditer(rb"(?<![\w\"])\d+(\.\d+)?", place.data))
    if not numbers:
        return append_garbage(place)
    one = place.chance.choice(numbers)
    huge = place.chance.choice((b"1e400", b"9" * 400, b"-1", b"NaN", b"99999999999999999999"))
    return place.write(place.data[: one.start()] + huge + place.data[one.end() :])


def change_plausibly(place: Place) -> None:
    pattern, new = place.chance.choice(PLAUSIBLE)
    place.write(re.sub(pattern, new, place.data, count=1))


def nest_deeply(place: Place) -> None:
    place.write(b'{"config": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def break_first_line(place: Place) -> None:
    place.write(b"x" + place.data.replace(b",", b";", 3))


def swap_with_sibling(place: Place) -> None:
    other = place.chance.choice(place.siblings)
    ours, theirs = place.data, other.read_bytes()
    place.write(theirs)
    other.write_bytes(ours)


def take_from_sibling(place: Place) -> None:
    place.write(place.chance.choice(place.siblings).read_bytes())


def take_from_other_run(place: Place) -> None:
    there = place.other_run / place.path.relative_to(place.run)
    source = there if there.is_file() else place.other_run / "config.json"
    place.write(source.read_bytes())


def delete(place: Place) -> None:
    place.path.unlink()


def put_folder(place: Place) -> None:
    place.replace(lambda path: (path / "inside").mkdir(parents=True))


def put_pipe(place: Place) -> None:
    place.replace(os.mkfifo)


def put_link_outside(place: Place) -> None:
    place.replace(lambda path: path.symlink_to(place.victim))


def put_endless_link(place: Place) -> None:
    place.replace(lambda path: path.symlink_to("/dev/zero"))


def put_link_to_itself(place: Place) -> None:
    place.replace(lambda path: path.symlink_to(path.name))


Mutation = Callable[[Place], None]
MUTATIONS: tuple[Mutation, ...] = (
    flip_bit, flip_bit_at_end, cut_anywhere, cut_last_byte, cut_to_a_line, empty, zero_block, zero_all,
    fill_at_random, append_garbage, double, double_last_line, use_crlf, use_huge_numbers, change_plausibly,
    nest_deeply, break_first_line, swap_with_sibling, take_from_sibling, take_from_other_run, delete, put_folder,
    put_pipe, put_link_outside, put_endless_link, put_link_to_itself,
)  # fmt: skip


def fill_from_sibling(place: Place) -> None:
    """A checkpoint with all files of another one of its run."""
    others = sorted(path for path in place.path.parent.glob("[0-9]*") if path != place.path)
    replace_folder(place.path, place.chance.choice(others))


def fill_from_other_run(place: Place) -> None:
    others = sorted(place.other_run.glob("checkpoints/[0-9]*"))
    replace_folder(place.path, place.chance.choice(others))


def rename_folder(place: Place) -> None:
    place.path.rename(place.path.with_name(f"{int(place.path.name) + 1000:012d}"))


def delete_folder(place: Place) -> None:
    shutil.rmtree(place.path)


def link_folder(place: Place) -> None:
    outside = place.victim.parent / f"moved-{place.path.name}"
    place.path.rename(outside)
    place.path.symlink_to(outside)


def replace_folder(path: Path, source: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(source, path)


FOLDER_MUTATIONS: tuple[Mutation, ...] = (
    fill_from_sibling, fill_from_other_run, rename_folder, delete_folder, link_folder,
)  # fmt: skip
