"""Where the time of a run went: every second once, over all sessions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_windows import Clock

import flashdqn
from conftest import forge_settings
from flashdqn import Run
from flashdqn.config import Config
from flashdqn.config.settings import apply_settings, to_dict
from flashdqn.core.files import read_signed_json, write_signed_json
from flashdqn.runs import checkpoint
from flashdqn.training.clock import PARTS, RunClock, find_earlier_parts, measure_process_age, parse_parts


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


#: A tree of parts: each has a name, its own seconds, and parts within it.
TREES = st.recursive(
    st.tuples(st.sampled_from(PARTS), st.integers(0, 50), st.just([])),
    lambda inner: st.tuples(st.sampled_from(PARTS), st.integers(0, 50), st.lists(inner, max_size=3)),
    max_leaves=12,
)


@given(tree=TREES, before=st.integers(0, 9))
def test_every_second_belongs_to_the_innermost_part(tree: Any, before: int) -> None:
    expected = dict.fromkeys(PARTS, 0.0)
    expected["start_up"] += before

    def count(node: Any) -> None:
        name, seconds, inner = node
        expected[name] += seconds
        for one in inner:
            count(one)

    def spend(node: Any) -> None:
        name, seconds, inner = node
        with run.count_as(name):
            clock.now += seconds
            for one in inner:
                spend(one)

    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        run = RunClock()
        clock.now += before
        spend(tree)
        count(tree)
        assert run.read() == expected
        assert run.total == sum(expected.values())


def test_the_warm_up_is_the_end_of_the_start(clock: Clock) -> None:
    run = RunClock(began=clock.now - 3.0)
    clock.now += 2.0
    run.end_start_up(warm_up=1.5)
    clock.now += 0.25
    found = {name: seconds for name, seconds in run.read().items() if seconds}
    assert found == {"start_up": 3.5, "warm_up": 1.5, "other": 0.25}


def test_an_error_ends_a_part(clock: Clock) -> None:
    run = RunClock()
    run.end_start_up(0.0)
    with suppress(ValueError), run.count_as("evaluation"):
        clock.now += 4.0
        raise ValueError
    clock.now += 1.0
    assert (run.measure("evaluation"), run.measure("other")) == (4.0, 1.0)


@pytest.mark.parametrize(
    "data", [None, 5, [], {"training": "long"}, {"training": math.nan}, {"training": -1}, {"pages": 10**400}]
)
def test_damaged_parts_are_not_believed(data: Any) -> None:
    assert parse_parts(data) == {}


def test_earlier_sessions_are_found() -> None:
    counters = {"transitions": 500, "seconds": 7.0, "time": {"training": 5.0, "evaluation": 1.0}}
    summary = {"steps": 500, "time": {"training": 5.0, "pages": 2.0}}
    assert find_earlier_parts(summary, counters) == {"training": 5.0, "pages": 2.0}
    assert find_earlier_parts(summary | {"steps": 900}, counters) == {"training": 5.0, "evaluation": 1.0}
    assert find_earlier_parts({}, {"transitions": 500, "seconds": 7.0}) == {
        "training": 7.0
    }  # an older version's


def test_a_process_is_older_than_what_it_has_done() -> None:
    age = measure_process_age()
    assert age == 0.0 or age >= time.process_time() / 64  # all threads count there


def test_a_summary_adds_up(tiny_run: Callable[..., Run]) -> None:
    summary = tiny_run().summary
    parts = summary["time"]
    assert list(parts) == list(PARTS)
    assert all(seconds >= 0 for seconds in parts.values())
    assert sum(parts.values()) == pytest.approx(summary["wall_seconds"], abs=0.02)
    assert summary["wall_seconds"] >= summary["seconds"]
    assert all(parts[name] > 0 for name in ("warm_up", "training", "evaluation", "checkpoints"))
    rate = summary["steps"] / summary["wall_seconds"]
    assert summary["wall_steps_per_second"] == pytest.approx(rate, rel=0.01)
    assert summary["window_steps_per_second"] > 0
    assert summary["batch"] == 32
    assert summary["reuse"] == pytest.approx(32 * summary["train_ratio"])


def test_a_file_has_what_the_run_says(tiny_run: Callable[..., Run]) -> None:
    run = tiny_run()
    told = read_signed_json(run.path / "summary.json")
    assert told["time"] == run.summary["time"]
    assert told["skipped_evaluations"] == 0


def test_a_resumed_run_adds_up_its_sessions(tiny_run: Callable[..., Run]) -> None:
    first = tiny_run(steps=1000)
    more = flashdqn.train(resume=first.path, steps=2000, progress=False)
    assert more.summary["wall_seconds"] > first.summary["wall_seconds"]
    for part, seconds in first.summary["time"].items():
        assert more.summary["time"][part] >= seconds - 0.001


def test_a_killed_session_counts_until_its_checkpoint(tiny_run: Callable[..., Run]) -> None:
    run = tiny_run(steps=1000)
    (run.path / "summary.json").unlink()
    point = checkpoint.list_checkpoints(run.path / "checkpoints", with_state=True)[-1]
    saved = checkpoint.load_checkpoint(point, with_state=False)[2]["time"]
    more = flashdqn.train(resume=run.path, steps=2000, progress=False)
    assert 0 < saved["training"] <= more.summary["time"]["training"]
    assert saved["pages"] == 0.0


def test_settings_of_an_earlier_version_have_the_usual_limit() -> None:
    settings = to_dict(Config())
    del settings["eval"]["max_share"]
    assert apply_settings(Config(), settings).eval.max_share == 0.1


def test_a_run_of_an_earlier_version_goes_on(tiny_run: Callable[..., Run]) -> None:
    """Its configuration has no limit for evaluations, and its checkpoint no parts of the time."""
    run = tiny_run(steps=1000, eval__max_share=0.1)
    forge_settings(run.path, lambda record: record["config"]["eval"].pop("max_share"))
    (run.path / "summary.json").unlink()
    for file in (run.path / "checkpoints").glob(f"*/{checkpoint.MANIFEST}"):
        manifest = read_signed_json(file)
        del manifest["counters"]["time"], manifest["counters"]["evaluations"]
        write_signed_json(file, manifest)
    more = flashdqn.train(resume=run.path, steps=2000, progress=False)
    assert more.config.eval.max_share == 0.1
    assert more.summary["time"]["training"] >= run.summary["time"]["training"]
