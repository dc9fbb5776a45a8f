"""Checkpoints: whole or not there, checked before they are believed, and never unpickled."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import flashdqn
from flashdqn.core.errors import CheckpointError, StorageError
from flashdqn.runs import best, checkpoint
from flashdqn.runs.best import find_best_checkpoint, mark_best_checkpoint, read_best
from flashdqn.runs.checkpoint import MANIFEST, STATE, WEIGHTS
from flashdqn.runs.folder import RunFolder
from flashdqn.runs.rewind import rewind_run
from flashdqn.runs.tables import append_row, read_table

FILES = (WEIGHTS, STATE, MANIFEST)


def content(value: float) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    weights = {"layer.weight": torch.full((3, 4), value), "layer.bias": torch.arange(3.0) + value}
    state = {
        "ring.obs": torch.full((5, 2), value, dtype=torch.uint8),
        "ring.filled": torch.tensor(7),
        "generator.replay": torch.Generator().manual_seed(int(value)).get_state(),
    }
    return weights, state


def save(folder: Path, step: int, value: float, with_state: bool = True) -> Path:
    weights, state = content(value)
    counters = {"transitions": step, "episodes": 3, "updates": 5, "seconds": 1.2345678901234567}
    return checkpoint.save(folder, weights, state if with_state else None, counters)


def assert_holds(path: Path, step: int, value: float, with_state: bool = True) -> None:
    weights, state, counters = checkpoint.load_checkpoint(path, with_state)
    expected = content(value)
    assert counters["transitions"] == step
    for mine, other in ((weights, expected[0]), (state, expected[1] if with_state else {})):
        assert mine.keys() == other.keys()
        assert all(torch.equal(mine[name], other[name]) for name in mine)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = save(tmp_path, 1000, 2.0)
    assert_holds(path, 1000, 2.0)
    assert_holds(path, 1000, 2.0, with_state=False)
    assert sorted(p.name for p in path.iterdir()) == sorted(FILES)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_weights_without_state_play_but_do_not_resume(tmp_path: Path) -> None:
    path = save(tmp_path, 1000, 2.0, with_state=False)
    assert_holds(path, 1000, 2.0, with_state=False)
    with pytest.raises(CheckpointError, match=r"state\.safetensors is missing"):
        checkpoint.load_checkpoint(path, with_state=True)


@pytest.mark.parametrize("there", [False, True], ids=["new", "again"])
def test_a_folder_that_cannot_be_synced_leaves_no_litter(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there:
        save(tmp_path, 5, 1.0)
    sync = checkpoint.sync_to_disk

    def fail(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EIO, "Input/output error")
        sync(path)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "sync_to_disk", fail)
        with pytest.raises(StorageError, match="Input/output error"):
            save(tmp_path, 5, 2.0)
    assert [path.name for path in tmp_path.iterdir()] == ["000000000005"]
    assert_holds(tmp_path / "000000000005", 5, 1.0 if there else 2.0)


def test_two_states_and_all_weights_are_kept(tmp_path: Path) -> None:
    for step in range(1, 7):
        save(tmp_path, step * 100, step, with_state=step != 4)
    everything = checkpoint.list_checkpoints(tmp_path)
    assert [int(path.name) for path in everything] == [100, 200, 300, 400, 500, 600]
    assert [int(p.name) for p in checkpoint.list_checkpoints(tmp_path, with_state=True)] == [500, 600]
    for step, path in enumerate(everything, 1):
        assert_holds(path, step * 100, step, with_state=step > 4)


class Crash(BaseException):
    """Nothing catches it, as nothing catches a power cut."""


OPERATIONS: list[tuple[Any, str]] = [
    (os, "fsync"),
    (Path, "rename"),
    (Path, "replace"),
    (Path, "unlink"),
    (Path, "mkdir"),
    (Path, "write_bytes"),
    (shutil, "rmtree"),
    (checkpoint, "save_file"),
]


@contextmanager
def crash_at(count: int, halfway: bool) -> Iterator[list[str]]:
    """Crash at the `count`-th file operation, before it or (`halfway`) after it; yields the names so far."""
    done: list[str] = []

    def wrap(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            done.append(name)
            if len(done) == count and not halfway:
                raise Crash
            result = original(*args, **kwargs)
            if len(done) == count:
                raise Crash
            return result

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in OPERATIONS:
            patch.setattr(owner, name, wrap(name, getattr(owner, name)))
        yield done


@pytest.mark.parametrize("halfway", [False, True])
@pytest.mark.parametrize("again", [False, True], ids=["a new step", "the same step again"])
def test_a_crash_at_any_operation_leaves_a_whole_checkpoint(
    tmp_path: Path, again: bool, halfway: bool
) -> None:
    step = 300 if again else 400

    def prepare(folder: Path) -> None:
        for earlier in (100, 200, 300):
            save(folder, earlier, earlier // 100)

    def write(folder: Path) -> None:
        save(folder, step, 9.0)

    prepare(tmp_path / "count")
    with crash_at(10**9, False) as done:
        write(tmp_path / "count")
    assert {"fsync", "rename", "mkdir", "save_file", *(["rmtree"] if again else [])} <= set(done)
    for count in range(1, len(done) + 1):
        folder = tmp_path / f"crash-{count}"
        prepare(folder)
        with crash_at(count, halfway), pytest.raises(Crash):
            write(folder)
        # Before anything is cleaned up: all that was there can play.
        there = checkpoint.list_checkpoints(folder)
        assert [int(path.name) for path in there][:3] == [100, 200, 300]
        for path in there:
            checkpoint.load_checkpoint(path, with_state=False)
        checkpoint.recover_interrupted_save(folder)
        newest = checkpoint.list_checkpoints(folder, with_state=True)[-1]
        old_is_there = (
            int(newest.name) == 300 and checkpoint.load_checkpoint(newest, True)[0]["layer.bias"][0] == 3.0
        )
        assert_holds(newest, 300, 3.0) if old_is_there else assert_holds(newest, step, 9.0)
        assert not list(folder.glob(".writing-*"))
        assert not list(folder.glob(".replaced-*"))
        write(folder)
        assert_holds(checkpoint.list_checkpoints(folder, with_state=True)[-1], step, 9.0)
        assert len(checkpoint.list_checkpoints(folder, with_state=True)) == 2


@pytest.mark.parametrize("halfway", [False, True])
def test_a_crash_while_the_best_is_remembered(tmp_path: Path, halfway: bool) -> None:
    paths = [save(tmp_path, step, 1.0) for step in (100, 200)]
    with crash_at(10**9, False) as done:
        mark_best_checkpoint(tmp_path, paths[0], 1.5)
    for count in range(1, len(done) + 1):
        mark_best_checkpoint(tmp_path, paths[0], 1.5)
        with crash_at(count, halfway), pytest.raises(Crash):
            mark_best_checkpoint(tmp_path, paths[1], 2.5)
        assert find_best_checkpoint(tmp_path) in ((paths[0], 1.5), (paths[1], 2.5))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("whole"), 1000, 2.0)


def damaged_loads_as_nothing_else(whole: Path, name: str, change: Callable[[bytes], bytes]) -> bool:
    """Change one file of a copy. True: refused. A manifest may change where it means the same: blanks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copytree(whole, Path(folder) / whole.name))
        (path / name).write_bytes(change((path / name).read_bytes()))
        try:
            assert_holds(path, 1000, 2.0)
        except CheckpointError:
            return True
        manifests = [json.loads((p / MANIFEST).read_bytes()) for p in (whole, path)]
        assert manifests[0] == manifests[1]
        return False


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(FILES), where=st.integers(0, 10**9), flip=st.integers(1, 255))
def test_a_flipped_byte_never_loads_silently(whole: Path, name: str, where: int, flip: int) -> None:
    def change(data: bytes) -> bytes:
        at = where % len(data)
        return data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]

    assert damaged_loads_as_nothing_else(whole, name, change) or name == MANIFEST


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(FILES), where=st.integers(0, 10**9))
def test_a_file_cut_short_never_loads_silently(whole: Path, name: str, where: int) -> None:
    refused = damaged_loads_as_nothing_else(whole, name, lambda data: data[: where % len(data)])
    assert refused or name == MANIFEST


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(whole: Path, tmp_path: Path, name: str) -> None:
    path = Path(shutil.copytree(whole, tmp_path / whole.name))
    (path / name).unlink()
    with pytest.raises(CheckpointError, match=re.escape(name)):
        checkpoint.load_checkpoint(path, with_state=True)


def test_files_of_another_checkpoint_do_not_pass(tmp_path: Path) -> None:
    first, second = save(tmp_path, 100, 1.0), save(tmp_path, 200, 2.0)
    shutil.copy(first / WEIGHTS, second / WEIGHTS)
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        checkpoint.load_checkpoint(second, with_state=False)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b"\xff\xfe",
        b'{"score": 1}',
        b'{"checkpoint": "000000000100", "score": "much"}',
        b'{"checkpoint": "000000000100", "score": NaN}',
        b'{"checkpoint": "000000000100", "score": null}',
        b'{"checkpoint": "000000009999", "score": 1}',
        b'{"checkpoint": "", "score": 1}',
        b'{"checkpoint": "..", "score": 1}',
        b'{"checkpoint": ["x"], "score": 1}',
    ],
)
def test_a_useless_best_is_survived(tmp_path: Path, text: bytes) -> None:
    path = save(tmp_path, 100, 1.0)
    (tmp_path / "best.json").write_bytes(text)
    assert find_best_checkpoint(tmp_path) is None
    with pytest.raises(CheckpointError, match=r"best\.json"):
        read_best(tmp_path)
    mark_best_checkpoint(tmp_path, path, 3.0)
    assert find_best_checkpoint(tmp_path) == (path, 3.0)


def test_a_damaged_best_is_named_and_resuming_finds_it_again(run_copy: Path) -> None:
    best = run_copy / "checkpoints" / "best.json"
    kept, name = best.read_bytes(), json.loads(best.read_bytes())["checkpoint"]
    for text in (b"{", b'{"checkpoint": "000000999999", "score": 99}', kept.replace(b"0", b"1", 1)):
        best.write_bytes(text)
        with pytest.raises(CheckpointError, match=rf"best\.json .*best that is known is .*{name}"):
            flashdqn.load(run_copy)
    best.unlink()
    assert RunFolder(run_copy).play_point(run_copy).name == name  # the manifests know the scores
    newest_step = int(checkpoint.list_checkpoints(run_copy / "checkpoints")[-1].name)
    rewind_run(run_copy, newest_step)
    assert best.read_bytes() == kept


def test_torn_tables_are_mended_on_the_way_back(run_copy: Path) -> None:
    table = run_copy / "metrics.csv"
    before = read_table(table)
    last = table.read_bytes().splitlines(keepends=True)[-1]
    for torn in (last[:1], last[: len(last) // 2], last[:-1].rstrip(), b"\0" * 40, b"\xff"):
        with table.open("ab") as file:
            file.write(torn)
        assert read_table(table) == before
        rewind_run(run_copy, 10**9)
        append_row(table, before[-1] | {"step": "999999"})
        assert [row["step"] for row in read_table(table)] == [row["step"] for row in before] + ["999999"]
        rewind_run(run_copy, int(before[-1]["step"]))
        assert read_table(table) == before


def test_nothing_is_ever_unpickled() -> None:
    source = Path(flashdqn.__file__).parent
    forbidden = re.compile(
        r"torch\.load\b|import (c?pickle|dill|joblib|shelve|marshal)\b|\bpickle\."
        r"|np\.load\b(?!.*allow_pickle=False)"
    )
    files = list(source.rglob("*.py"))
    assert len(files) > 20
    found = [path for path in files if forbidden.search(path.read_text(encoding="utf-8"))]
    # Numba's compiled code can be kept in no other way; only entries with the right checksum, in a folder that
    # belongs to the user alone, are read (tests/compute/test_kernel_cache.py). A learner and its workers are one
    # program: they speak over a pair of sockets that nobody else has, and nothing of it is kept.
    assert sorted(path.name for path in found) == ["channel.py", "kernel_cache.py"]


def test_a_long_run_keeps_a_bounded_number_of_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best, "MOST_CHECKPOINTS", 8)
    weights = {"w": torch.zeros(1)}
    for step in range(1, 101):
        counters = {"transitions": step}
        path = checkpoint.save(tmp_path, weights, weights if step % 10 == 0 else None, counters)
        best.thin_out_checkpoints(tmp_path)
        if step == 13:
            mark_best_checkpoint(tmp_path, path, 5.0)
    steps = [int(path.name) for path in checkpoint.list_checkpoints(tmp_path)]
    assert len(steps) <= 10
    assert {1, 13, 90, 100} <= set(steps)  # the first, the best and those to resume from
    assert [int(p.name) for p in checkpoint.list_checkpoints(tmp_path, with_state=True)] == [90, 100]
    assert not list(tmp_path.glob(".*"))
