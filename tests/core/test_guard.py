"""Calls into a user's code: whatever it does becomes one sentence, and a true Ctrl-C stays one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from flashdqn.core.blame import MOST_LETTERS, read_message
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.guard import Guard
from flashdqn.core.signals import Interrupt, runs_as_command, send_swallowed_stops_again


class Foreign(BaseException):
    """Not an `Exception`."""


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def fail(error: BaseException) -> None:
    raise error


def recurse() -> int:
    return recurse() + 1


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (lambda: sys.exit(0), r"game raised SystemExit: 0 \(in .*test_guard.py, line \d+\)\.$"),
        (lambda: sys.exit("bye"), "raised SystemExit: bye"),
        (lambda: fail(KeyboardInterrupt()), r"raised KeyboardInterrupt \(in"),
        (lambda: fail(GeneratorExit()), r"raised GeneratorExit \(in"),
        (lambda: fail(Foreign("x")), "raised Foreign: x"),
        (lambda: fail(UnprintableError()), "raised UnprintableError: .its message cannot be read."),
        (lambda: fail(ValueError("a\nb\x1b[2Jc")), r"raised ValueError: a b.\[2Jc "),
        (recurse, "raised RecursionError"),
        (lambda: fail(MemoryError()), r"raised MemoryError \(in"),
        (lambda: next(iter(())), r"raised StopIteration \(in"),
    ],
)
def test_everything_becomes_one_sentence(deed: Callable[[], object], said: str) -> None:
    with pytest.raises(EnvError, match=said) as told:
        Guard("game", 30.0).call("step", deed)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 1000


def test_long_texts_are_cut() -> None:
    assert len(read_message(ValueError("x" * 10**6))) < MOST_LETTERS + 10
    named = compile("def fail():\n    raise ValueError", "x" * 10**4, "exec")
    space: dict[str, Any] = {}
    exec(named, space)
    with pytest.raises(EnvError) as caught:
        Guard("game", 30.0).call("step", space["fail"])
    assert len(str(caught.value)) < 2 * MOST_LETTERS


def test_our_own_errors_pass() -> None:
    with pytest.raises(ConfigError, match=r"^as it is$"):
        Guard("game", 30.0).call("make", fail, ConfigError("as it is"))


def test_our_own_errors_from_a_step_are_the_environments() -> None:
    with pytest.raises(EnvError, match=r"^as it is$"):
        Guard("game", 30.0).call("step", fail, ConfigError("as it is"))


class MaskedError(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise ValueError("no class")


def test_an_error_that_hides_its_class_is_told() -> None:
    with pytest.raises(EnvError, match=r"game raised MaskedError: here"):
        Guard("game", 30.0).call("step", fail, MaskedError("here"))


def test_an_exit_while_an_error_of_ours_is_handled_is_told() -> None:
    guard = Guard("game", 30.0)
    try:
        guard.call("step", sys.exit, 0)
    except EnvError:
        with pytest.raises(EnvError, match="game raised SystemExit: 0"):
            guard.call("state_dict", sys.exit, 0)


def test_a_copy_of_the_process_that_a_call_makes_does_not_come_back() -> None:
    child = Guard("game", 30.0).call("step", os.fork)
    if child == 0:  # the copy: with exit code 7 the test fails
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_an_interrupt_of_a_destructor_is_not_a_ctrl_c() -> None:
    class Broken:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    told: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda found: told.append(found.exc_type)
    try:
        with send_swallowed_stops_again():
            Broken()
    finally:
        sys.unraisablehook = before
    assert told == [KeyboardInterrupt]


def test_a_true_ctrl_c_passes() -> None:
    def step() -> None:
        signal.raise_signal(signal.SIGINT)
        time.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        Guard("game", 30.0).call("step", step)


def spin() -> None:
    while True:
        pass


@pytest.mark.parametrize("hang", [spin, lambda: time.sleep(60), lambda: threading.Event().wait(60)])
def test_a_hang_is_ended(hang: Callable[[], object]) -> None:
    with pytest.raises(EnvError, match=r"game has not answered for 0.5 s .`step`, in .*--env.timeout"):
        Guard("game", 0.5).call("step", hang)


def test_a_hang_is_ended_where_timers_stop_a_training() -> None:
    with Interrupt(waits=True) as interrupt:
        guard = Guard("game", 0.5)
        with pytest.raises(EnvError, match="has not answered"):
            guard.call("step", time.sleep, 60)
        assert not interrupt.requested
        signal.raise_signal(signal.SIGALRM)
        assert interrupt.signal == signal.SIGALRM


def test_a_hang_in_another_thread_is_ended() -> None:
    said: list[BaseException] = []

    def work() -> None:
        try:
            Guard("game", 0.5).call("step", spin)
        except EnvError as error:
            said.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=60)
    assert "has not answered" in str(said[0])


def test_many_short_calls_are_not_a_hang() -> None:
    def one() -> None:
        time.sleep(0.4)

    def many() -> None:
        for _ in range(3):
            one()

    guard = Guard("game", 60.0)
    guard.call("step", many)
    assert guard.waited < 60


def test_what_a_call_changes_of_the_process_is_set_back() -> None:
    import torch

    def change() -> None:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_default_device("meta")
        sys.setrecursionlimit(200)

    before = sys.getrecursionlimit()
    Guard("game", 30.0).call("make", change)
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert torch.get_default_device() == torch.device("cpu")
    assert sys.getrecursionlimit() == before


def test_what_a_step_changes_of_the_defaults_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def step() -> None:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        monkeypatch.setattr(sys, "stdout", None)

    Guard("game", 30.0).call("step", step)
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_default_device() == torch.device("cpu")
    assert sys.stdout is sys.__stdout__


@pytest.mark.parametrize("words", [[], ["flashdqn", "presets"]])
def test_a_command_is_known_without_its_arguments(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that pretends to be the command is not ended with its threads."""
    monkeypatch.setattr(sys, "argv", words)
    assert not runs_as_command()
