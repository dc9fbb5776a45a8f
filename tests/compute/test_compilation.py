"""What is being compiled, how long it will take, and how to do without."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashdqn.compute import compilation
from flashdqn.compute.cache_folder import OWN_NAMES, find_cache_folder
from flashdqn.compute.compilation import (
    FIRST_GUESSES,
    TIMES_FILE,
    CompilationLog,
    NotCompiledError,
    begin_compilation,
    end_compilation,
    expect_kernels,
    find_kernel,
    get_log,
    list_compiled,
    read_times,
    refuse_compilation,
    restart_log,
)
from flashdqn.compute.kernel_cache import DriverCache

NAME = "flashdqn_kernel_run_policy_0123456789abcdef"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FLASHDQN_CACHE", str(tmp_path / "cache"))
    find_cache_folder.cache_clear()
    restart_log()
    yield tmp_path / "cache"
    monkeypatch.undo()
    find_cache_folder.cache_clear()
    restart_log()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(
        compilation, "time", types.SimpleNamespace(perf_counter=lambda: now[0], process_time=lambda: now[0])
    )
    return now


def test_times_are_remembered(folder: Path, clock: list[float]) -> None:
    assert get_log().guess_seconds("run_policy") == FIRST_GUESSES["run_policy"]
    begin_compilation(NAME)
    assert get_log().current == "run_policy"
    clock[0] += 7.5
    end_compilation(NAME)
    assert (get_log().current, get_log().done) == (None, {"run_policy": 7.5})
    assert read_times() == {"run_policy": 7.5}
    assert OWN_NAMES.fullmatch(TIMES_FILE), "or `flashdqn cache clear` would leave it"
    assert restart_log().guess_seconds("run_policy") == 7.5


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run_policy": "x"}', '{"run_policy": -1}', '{"a": NaN}'])
def test_damaged_times_are_forgotten(folder: Path, text: str) -> None:
    (folder / TIMES_FILE).write_text(text)
    assert read_times() == {}


def test_the_estimate_follows_the_machine(clock: list[float]) -> None:
    log = CompilationLog(times={"a": 10.0, "b": 20.0, "c": 30.0}, expected=["c"], begun=(100.0, 100.0))
    log.current, log.started = "a", 100.0
    assert (log.number, log.total) == (1, 2)
    assert log.estimate(104.0) == (4.0, 36.0)
    log.done, log.current, log.started = {"a": 20.0}, "b", 120.0  # twice as long as expected
    assert (log.number, log.total) == (2, 3)
    assert log.estimate(130.0) == (30.0, 30.0 + 60.0)
    assert log.estimate(200.0)[1] > 60.0, "there is always something left of what is not done"


def test_a_busy_machine_takes_longer_from_the_first_kernel_on(clock: list[float]) -> None:
    log = CompilationLog(times={"a": 10.0}, begun=(60.0, 90.0))  # ten seconds of work in forty
    log.current, log.started = "a", 100.0
    assert log.estimate(100.0) == (0.0, 40.0)


def test_what_is_on_disk_is_not_expected(folder: Path) -> None:
    (folder / f"{NAME}-0123456789abcdef.kernel").write_bytes(b"")
    assert find_kernel(f"{NAME}-0123456789abcdef.kernel") == find_kernel(NAME) == "run_policy"
    assert list_compiled() == {"run_policy"}
    expect_kernels(["run_policy", "pick_batch"])
    assert get_log().expected == ["pick_batch"]


def test_refused_code_is_named_and_nothing_is_compiled(folder: Path) -> None:
    class Context:
        def refresh(self) -> None:
            pass

        def codegen(self) -> Any:
            return types.SimpleNamespace(magic_tuple=tuple)

    cache = DriverCache(NAME, "digest", cuda=False)
    with refuse_compilation() as missing:
        with pytest.raises(NotCompiledError, match="run_policy is not compiled yet"):
            cache.load_overload((), Context())
        begin_compilation("flashdqn_kernel_adam_step_0123")  # so small that it is compiled all the same
        end_compilation("flashdqn_kernel_adam_step_0123")
    assert missing == ["run_policy"]
    assert cache.load_overload((), Context()) is None
    assert get_log().current == "run_policy"


def test_times_that_cannot_be_are_not_believed(folder: Path) -> None:
    (folder / TIMES_FILE).write_text('{"run_updates": 1e308, "play_vector": 1e308}')
    assert read_times() == {}  # their sum is infinite, and no display can round it
