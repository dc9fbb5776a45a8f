"""The smaller parts of the watch: what a step says, what a print claims, who made a class, where a line is."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flashdqn.doctor.watch import counters as tally
from flashdqn.doctor.watch import sampler
from flashdqn.doctor.watch.classes import counted_step, watch_class
from flashdqn.doctor.watch.clerk import Clerk
from flashdqn.doctor.watch.env_step import (
    count_transitions,
    find_ended_envs,
    is_step_result,
    read_rewards_and_ends,
    read_step_result,
)
from flashdqn.doctor.watch.frames import is_plumbing
from flashdqn.doctor.watch.kinds import Owner
from flashdqn.doctor.watch.main_module import compile_with_callbacks
from flashdqn.doctor.watch.on_import import AfterImport
from flashdqn.doctor.watch.prints import HINT, may_claim_speed, parse_claimed_speed
from flashdqn.doctor.watch.rows import PartFailure


@pytest.mark.parametrize(
    ("result", "transitions", "indexes"),
    [
        ((0, 1.0, False), 1, []),
        ((0, 1.0, True), 1, [0]),
        ((0, 1, 1), 1, [0]),
        ((0, 1.0, True, {"TimeLimit.truncated": True}), 1, [0]),
        ((0, 1.0, False, {"not": "an end"}), 1, []),
        ((0, 1.0, False, True, {}), 1, [0]),
        ((0, 1.0, np.bool_(True), np.False_, {}), 1, [0]),
        ((0, np.float32(1.0), torch.tensor(True), torch.tensor(False)), 1, [0]),
        ((0, torch.tensor([1.0]), torch.tensor([False]), torch.tensor([True]), {}), 1, [0]),
        ((0, np.zeros(4), np.array([True, False, False, True]), [{}, {}, {}, {}]), 4, [0, 3]),
        ((0, np.zeros(1), np.array([False]), [{"episode": 1}]), 1, []),
        ((0, np.zeros((4, 1)), np.array([[0], [1], [0], [1]]), {}), 4, [1, 3]),
        (
            (0, torch.zeros(3), torch.tensor([0.0, 1.0, 0.0]), torch.tensor([False, False, True]), {}),
            3,
            [1, 2],
        ),
        ((0, [1.0, 2.0], [True, False], {}), 2, [0]),
        ((0, [1.0], [True], {}), 1, [0]),
        (
            (0, torch.zeros(3), torch.zeros(3, device="meta")),
            3,
            [],
        ),  # nothing that it would have to wait for
        ((0, 1.0, object()), 1, []),
        ((0, object(), None, None), 1, []),
        ((0, np.zeros(0), np.zeros(0)), 1, []),
    ],
)
def test_what_a_step_says(result: tuple[Any, ...], transitions: int, indexes: list[int]) -> None:
    assert is_step_result(result)
    reward, ends = read_rewards_and_ends(result)
    assert count_transitions(reward) == transitions
    assert find_ended_envs(transitions, ends) == indexes
    number, flags = read_step_result(result)
    assert (number, find_ended_envs(number, flags)) == (transitions, indexes)


@given(
    st.tuples(
        st.none(),
        st.floats() | st.integers() | st.booleans() | st.none(),
        st.booleans() | st.integers(0, 1),
        st.booleans() | st.just({}) | st.just({"done": True}) | st.integers(0, 1) | st.just([]),
    ),
    st.sampled_from([(), ({},), ({}, 1)]),
)
def test_the_short_way_says_the_same_as_the_long_one(start: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
    result = start + rest
    reward, ends = read_rewards_and_ends(result)
    number, flags = read_step_result(result)
    assert (number, find_ended_envs(number, flags)) == (
        count_transitions(reward),
        find_ended_envs(count_transitions(reward), ends),
    )


@pytest.mark.parametrize("result", [None, 1.0, (1, 2), [1, 2, 3], {"a": 1}, "abc"])
def test_what_is_no_step(result: object) -> None:
    assert not is_step_result(result)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SPS: 1,234", 1234.0),
        ("1234 steps/s", 1234.0),
        ("12.5k fps", 12_500.0),
        ("2M env steps per second", 2e6),
        ("steps_per_sec=99", 99.0),
        ("fps | 512", 512.0),
        ("frames/s: 60", 60.0),
        ("loss 0.5, 321 transitions/sec", 321.0),
        ("12 episodes/s", None),
        ("steps: 100", None),
        ("", None),
    ],
)
def test_claims_of_speed(text: str, value: float | None) -> None:
    assert parse_claimed_speed(text) == value
    assert value is None or may_claim_speed(text)


@given(st.text(alphabet="/ spfrePSFER1", max_size=12))
def test_no_hint_is_passed_over(text: str) -> None:
    assert may_claim_speed(text) == (HINT.search(text) is not None)


def test_whose_file_it_is() -> None:
    assert is_plumbing(threading.__file__)
    assert is_plumbing(torch.__file__)
    assert is_plumbing(sampler.__file__)
    assert is_plumbing("<frozen importlib._bootstrap>")
    assert not is_plumbing("/home/me/torch/train.py")
    assert not is_plumbing("/usr/lib/python3.11/site-packages/stable_baselines3/dqn/dqn.py")


def test_lines_that_have_no_number() -> None:
    code = compile("for i in x:\n    y\n\nz\n", "made.py", "exec")
    for start, end, line in code.co_lines():
        for instruction in range(start, end):
            assert sampler.find_line_before(code, instruction) == (
                line or sampler.find_line_before(code, start - 1)
            )


def test_stacks_are_read_from_the_inside() -> None:
    def inner() -> Any:
        return sampler.read_stack(sys._getframe())

    stack = inner()
    assert [code.co_name for code, _, _ in stack[:2]] == ["inner", "test_stacks_are_read_from_the_inside"]
    looks = sampler.Looks(0.005)
    looks.see(sys._getframe())
    looks.see(sys._getframe())
    frames, stacks = looks.describe()
    assert looks.number == 2
    seen = frames[stacks[0][-1]]
    assert (seen.file, seen.function) == (__file__, "test_stacks_are_read_from_the_inside")
    assert (seen.owner, seen.phase) == (Owner.SCRIPT, None)
    assert len(stacks) == 2  # two lines


def test_a_chore_that_fails_is_not_asked_again() -> None:
    done = []

    def fails() -> None:
        done.append("fails")
        raise ValueError("no")

    clerk = Clerk(sampler.Looks(0.005), 1.0, [fails, lambda: done.append("works")])
    clerk.do_chores()
    clerk.do_chores()
    assert done == ["fails", "works", "works"]
    assert str(clerk.failures[0]).endswith("fails: ValueError: no")
    clerk.close()
    clerk.close()
    assert [window.samples for window in clerk.windows] == [{}, {}]


def test_something_comes_first() -> None:
    module, calls = ModuleType("made"), []
    module.call = lambda *args: calls.append(args)  # type: ignore[attr-defined]
    module.plain = module.call  # type: ignore[attr-defined]
    sampler.call_before_function(lambda: calls.append("first"), module, "call", 3)
    sampler.call_before_function(lambda: calls.append("always"), module, "plain")
    module.call(2)
    module.call(3, 4)
    module.plain()
    assert calls == [(2,), "first", (3, 4), "always", ()]


def test_nothing_of_ours_gets_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: dict[str, PartFailure] = {}
    monkeypatch.setattr(tally, "failures", failures)

    @tally.catch_failures
    def breaks(number: int) -> None:
        raise ValueError(f"no {number}")

    breaks(1)
    breaks(2)
    assert failures == {"breaks": PartFailure("breaks", "ValueError: no 1")}


class Env:
    def reset(self) -> int:
        return 0

    def step(self, action: int) -> tuple[int, float, bool]:
        return action, 0.0, False


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> tally.Counters:
    counters = tally.Counters()
    for name in ("counters", "env_step"):
        monkeypatch.setattr(f"flashdqn.doctor.watch.{name}.counters", counters)
    monkeypatch.setattr(tally, "sites", {})
    return counters


def made(**parts: Any) -> Any:
    return type("Made", (), parts)


def test_which_classes_are_environments() -> None:
    def step(self: Any, action: int) -> None: ...
    def tick(self: Any) -> None: ...
    def reset(self: Any) -> None: ...

    def is_counted(cls: Any) -> bool:
        watch_class(cls)
        return vars(cls)["step"] not in (step, tick)

    scheduler = type("LRScheduler", (), {})
    assert is_counted(made(step=step, reset=reset))
    assert is_counted(type("Child", (made(reset=reset),), {"step": step}))
    assert not is_counted(made(step=step))
    assert not is_counted(made(step=tick, reset=reset))
    assert not is_counted(type("Child", (scheduler,), {"step": step, "reset": reset}))
    watch_class(42)
    watch_class(made(step=staticmethod(step), reset=reset))


def test_a_class_is_not_counted_twice(counted: tally.Counters) -> None:
    cls = made(step=Env.step, reset=Env.reset)
    watch_class(cls)
    method = cls.step
    watch_class(cls)
    assert cls.step is method
    cls().step(1)
    assert counted.vector_steps == 1


def test_an_exception_leaves_no_trace(counted: tally.Counters) -> None:
    class Failing(Env):
        def step(self, action: int) -> tuple[int, float, bool]:
            if action:
                raise ValueError("no")
            return super().step(action)

    Failing.step = counted_step(Failing.step)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="no"):
        Failing().step(1)
    Failing().step(0)
    assert counted.vector_steps == 1


def test_classes_in_the_source_are_shown_after_their_decorators() -> None:
    source = b"""
from __future__ import annotations
def twice(cls): return [cls, cls]
@twice
class A:
    class B: pass
    x: int = 3
def f():
    class __C: "doc"
    return __C
f()
"""
    seen: list[Any] = []
    namespace: dict[str, Any] = {"__doctor_looks_at_class__": seen.append, "__name__": "made"}
    exec(compile_with_callbacks(source, "made.py"), namespace)
    assert [getattr(one, "__name__", len(one) if isinstance(one, list) else None) for one in seen] == [
        "B",
        2,
        "__C",
    ]
    assert seen[1][0].__annotations__ == {"x": "int"}
    function = namespace["f"]
    assert isinstance(function, FunctionType)
    assert isinstance(function.__code__, CodeType)
    assert function.__code__.co_firstlineno == 8


def test_an_action_follows_an_import_however_often_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_later.py").write_text("VALUE = 3\n", encoding="utf-8")
    (tmp_path / "usual_one.py").write_text("", encoding="utf-8")
    (tmp_path / "broken_one.py").write_text("1 / 0\n", encoding="utf-8")
    special: list[str] = []
    usual: list[str] = []
    finder = AfterImport(
        {"found_later": lambda module: special.append(module.__name__)},
        lambda module: usual.append(module.__name__),
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [finder, object(), *sys.meta_path])
    for _ in range(2):
        spec = importlib.util.find_spec("found_later")
        assert spec is not None
        assert spec.loader is not None
        assert spec.loader.get_filename("found_later") == str(tmp_path / "found_later.py")  # type: ignore[attr-defined]
    assert special == []
    module = importlib.import_module("found_later")
    assert (special, module.VALUE) == (["found_later"], 3)
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__
    importlib.import_module("usual_one")
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("broken_one")
    assert usual == ["usual_one"]
    assert finder.find_spec("no_such_module_at_all", None) is None
    for name in ("found_later", "usual_one"):
        monkeypatch.delitem(sys.modules, name)
