"""How long a first start took is remembered, if it can be; and nothing goes wrong if it cannot."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import tiny_config
from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.training import warm_times
from flashdqn.training.autotune import Choice
from flashdqn.training.warm_times import WarmUp, warm_up_key

CHOICE = Choice(ExecutionPlan("eager"))
WRITERS, WRITES = 4, 40
SPOILED = [
    *("", "{", "[1, 2]", "3", "null", '{"a": "x"}', '{"a": null}', "\xff\xfe"),
    *('{"a": NaN}', '{"a": -1}', '{"a": 1e999}', '{"a": 1' + "0" * 400 + "}", "[" * 5000, "\0" * 100),
    '{"a": 3.0, "checksum": "0"}',
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(warm_times, "find_cache_folder", lambda: tmp_path)
    return tmp_path / "warm-up.json"


def test_the_first_time_is_kept(cache: Path) -> None:
    config = tiny_config()
    first = WarmUp.took(config, 20.0, CHOICE)
    assert (first.seconds, first.first, str(first)) == (20.0, 20.0, "20.0 s")
    for seconds in (3.0, 4.0):
        again = WarmUp.took(config, seconds, CHOICE)
        assert (again.seconds, again.first) == (seconds, 20.0)
        assert str(again) == f"{seconds:.1f} s (the first time: 20.0 s)"
    assert WarmUp.took(tiny_config(envs=32), 5.0, CHOICE).first == 5.0
    assert warm_times.read_warm_times(cache) == {
        warm_up_key(config): 20.0,
        warm_up_key(tiny_config(envs=32)): 5.0,
    }
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]  # nothing temporary is left


def test_seed_budget_and_place_do_not_matter(tmp_path: Path) -> None:
    assert warm_up_key(tiny_config(seed=7, steps=99, max_time=3.0, out=str(tmp_path))) == warm_up_key(
        tiny_config()
    )
    assert warm_up_key(tiny_config(learn__batch_size=64)) != warm_up_key(tiny_config())


@pytest.mark.parametrize("spoiled", SPOILED)
def test_a_spoiled_file_counts_as_none(cache: Path, spoiled: str) -> None:
    cache.write_bytes(spoiled.encode("latin-1"))
    assert WarmUp.took(tiny_config(), 2.0, CHOICE).first == 2.0
    assert WarmUp.took(tiny_config(), 1.0, CHOICE).first == 2.0  # and was mended


def test_what_cannot_be_read_or_written_is_no_reason_to_stop(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir()  # a folder in its place: neither to be read nor to be replaced
    for seconds in (2.0, 1.0):
        assert WarmUp.took(tiny_config(), seconds, CHOICE).first == seconds
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]
    monkeypatch.setattr(warm_times, "find_cache_folder", lambda: cache / "not" / "there")
    assert WarmUp.took(tiny_config(), 3.0, CHOICE).first == 3.0


def write_many(path: Path, who: int) -> None:
    for k in range(WRITES):
        warm_times.write_warm_times(path, warm_times.read_warm_times(path) | {f"{who}/{k}": 1.0})
        assert isinstance(json.loads(path.read_text()), dict)


def test_writers_at_once_do_not_spoil_the_file(tmp_path: Path) -> None:
    """One may forget what another wrote; but at every moment the file is whole."""
    path = tmp_path / "warm-up.json"
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(write_many, path, who) for who in range(WRITERS)]:
            done.result()
    assert any(f"{who}/{WRITES - 1}" in warm_times.read_warm_times(path) for who in range(WRITERS))
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
