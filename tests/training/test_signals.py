"""How a training ends: by any signal at any moment, by an error of the environment, the disk, the memory or our
own. Afterwards the run can go on, and summary.json says what happened."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flashdqn
from conftest import start, tiny_config, tiny_flags
from flashdqn import Run
from flashdqn.core.errors import ConfigError, DivergedError, EnvError, MemoryShortageError, StorageError
from flashdqn.core.signals import STOP_SIGNALS, Interrupt, Stopped, find_exit_code, name_signal
from flashdqn.envs.snake.env import Snake
from flashdqn.runs import checkpoint
from flashdqn.runs.tables import read_table
from flashdqn.show.report import RUN_PAGES
from flashdqn.show.terminal import SteadyConsole
from flashdqn.training import budget, ending, evaluator, prepared, summary
from flashdqn.training.loop import Loop
from flashdqn.training.progress import LiveDisplay, Plain
from flashdqn.training.session import start_run

SHORT = {"steps": 1500, "eval__every": 700, "log__checkpoint_every": 500, "log__every": 250}


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN_PAGES, "learning curve", lambda path: None)


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of the short run that nothing has stopped."""
    out = str(tmp_path_factory.mktemp("never"))
    return str(flashdqn.train(tiny_config(out=out, **SHORT), progress=False).summary["weights"])


def call_before(
    patch: pytest.MonkeyPatch, owner: Any, name: str, action: Callable[..., object], times: int = 1
) -> None:
    """Before the first calls of a function, do something."""
    inner, done = getattr(owner, name), []

    def wrapped(*given: Any, **named: Any) -> Any:
        if len(done) < times and action(*given) is not False:
            done.append(True)
        return inner(*given, **named)

    patch.setattr(owner, name, wrapped)


def after(step: int, action: Callable[[], object]) -> Callable[..., object]:
    """An action for a method of the loop, once it has come to a step."""
    return lambda one, *_: action() if one.parts.counts.transitions >= step else False


def read_summary(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "summary.json").read_text(encoding="utf-8")))


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


MOMENTS: dict[str, tuple[Any, str, int]] = {
    "fill": (Loop, "iterate", 50),
    "an iteration": (Loop, "learn", 600),
    "an evaluation": (evaluator, "evaluate", 0),
    "a checkpoint": (Loop, "_write_checkpoint", 0),
    "the last games": (summary, "evaluate_checkpoint", 0),
    "the pages": (summary, "write_pages", 0),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_loses_nothing(
    moment: str, tiny_run: Callable[..., Run], never_stopped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = STOP_SIGNALS[list(MOMENTS).index(moment) % len(STOP_SIGNALS)]
    owner, name, step = MOMENTS[moment]
    seen: list[int] = []

    def send(*_: Any) -> None:
        seen.append(1)
        os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        call_before(patch, owner, name, after(step, send) if step else send)
        stopped = tiny_run(**SHORT)
    assert seen
    assert not stopped.finished
    assert stopped.summary["stopped"] == name_signal(number) == read_summary(stopped.path)["stopped"]
    assert stopped.exit_code == find_exit_code(number)
    points = checkpoint.list_checkpoints(stopped.path / "checkpoints", with_state=True)
    assert int(points[-1].name) == stopped.summary["steps"]
    resumed = flashdqn.train(resume=stopped.path, progress=False)
    assert resumed.finished
    assert resumed.summary["weights"] == never_stopped
    assert resumed.summary["stopped"] == "budget: steps"
    assert resumed.exit_code == 0
    for table in ("metrics.csv", "evaluations.csv"):
        steps = [row["step"] for row in read_table(stopped.path / table)]
        assert len(set(steps)) == len(steps) > 0


def test_exit_codes() -> None:
    assert [find_exit_code(number) for number in (signal.SIGINT, signal.SIGTERM)] == [130, 75]
    assert {find_exit_code(number) for number in STOP_SIGNALS if number != signal.SIGINT} == {75}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_before_the_first_step_nothing_is_left(
    number: int, tiny_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_before(monkeypatch, prepared, "prepare_engine", lambda *_: os.kill(os.getpid(), number))
    with pytest.raises(Stopped, match="before the first step; there is nothing to save") as stop:
        tiny_run()
    assert stop.value.exit_code == find_exit_code(number)
    assert not (tmp_path / "runs").exists()


def test_half_of_the_demonstrations_are_not_kept(
    tiny_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flashdqn.training import demonstrate

    call_before(
        monkeypatch, demonstrate, "keep_demonstrations", lambda *_: os.kill(os.getpid(), signal.SIGTERM)
    )
    demos = {"demos__source": "random", "demos__episodes": 20, "demos__pretrain_steps": 50}
    with pytest.raises(Stopped, match="before the first step"):
        tiny_run(**SHORT, **demos)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_signal_during_resume_changes_nothing(run_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {
        path: path.read_bytes() for path in run_copy.rglob("*") if path.is_file() and path.stat().st_size
    }
    call_before(monkeypatch, prepared, "prepare_engine", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Stopped, match=r"the run is as it was; go on with: flashdqn train --resume"):
        flashdqn.train(resume=run_copy, steps=9000, progress=False)
    assert {path: path.read_bytes() for path in before} == before


def test_the_same_signal_twice_is_one(tiny_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` sends it to the process and to its group."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with monkeypatch.context() as patch:
            twice = [lambda n=number: os.kill(os.getpid(), n)] * 2
            call_before(patch, Loop, "learn", after(600, lambda twice=twice: [send() for send in twice]))
            assert tiny_run(**SHORT).summary["stopped"] == name_signal(number)


def test_a_game_that_hangs_is_left_by_the_second_signal() -> None:
    for first, second in (
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGTERM, signal.SIGINT),
        (signal.SIGINT, signal.SIGINT),
    ):
        with Interrupt(waits=True) as interrupt:
            signal.raise_signal(first)
            interrupt._when -= 2.0  # as if it had come a while ago
            with pytest.raises(Stopped):
                signal.raise_signal(second)


def test_a_save_is_completed_whatever_comes_but_ctrl_c() -> None:
    with Interrupt(waits=True) as interrupt:
        signal.raise_signal(signal.SIGUSR1)
        interrupt._when -= 60.0
        interrupt.saving = True
        signal.raise_signal(signal.SIGTERM)
        interrupt.saving = False
        signal.raise_signal(signal.SIGXCPU)  # the system repeats it every second
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)


@pytest.fixture
def ignored_hang_up() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("ignored_hang_up")
def test_nohup_stays_nohup() -> None:
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGHUP)
        assert not interrupt.requested


def test_a_handler_of_the_users_own_stays() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: came.append(number))
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGUSR1)
        assert (came, interrupt.requested) == ([signal.SIGUSR1], False)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_stop_that_was_swallowed_is_not_forgotten() -> None:
    with Interrupt():
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        with Interrupt() as inner, pytest.raises(Stopped):
            inner.stop_if_requested()


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_workers_leave_signals_to_the_trainer(number: int) -> None:
    import torch

    env: Any = flashdqn.make_env("gym_envs:make_walk", 2, vectorization="async")
    env.reset(0)
    for process in env.vector.env.processes:
        os.kill(process.pid, number)
    env.step(torch.zeros(2, dtype=torch.int64))
    env.close()


# ---- the terminal


class Broken:
    """An output that fails."""

    def __init__(self, number: int, terminal: bool) -> None:
        self.number, self.terminal = number, terminal

    def write(self, _: str) -> int:
        raise OSError(self.number, os.strerror(self.number))

    flush = isatty = lambda self: self.terminal


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EPIPE])
@pytest.mark.parametrize("terminal", [False, True])
def test_an_output_that_fails_does_not_end_the_training(number: int, terminal: bool, tmp_path: Path) -> None:
    stream: Any = Broken(number, terminal)
    console = SteadyConsole(always=True, file=stream, force_terminal=terminal)
    progress = LiveDisplay(console) if terminal else Plain(console)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flashdqn.show.terminal.discard_output", lambda _: None)  # pytest's own output stays
        assert start_run(tiny_config(out=str(tmp_path), steps=600), progress).finished


# ---- checkpoints by time


def test_checkpoints_by_time_change_nothing(
    tiny_run: Callable[..., Run], never_stopped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look at the clock takes a minute: there is a checkpoint in every iteration, and few of them stay."""
    ticks = iter(range(10**9))
    with monkeypatch.context() as patch:
        patch.setattr(budget.time, "monotonic", lambda: 60.0 * next(ticks))
        patch.setattr(budget, "SAVE_SHARE", 0)
        often = tiny_run(**SHORT, log__checkpoint_minutes=0.5)
    assert often.summary["weights"] == never_stopped
    assert len(checkpoint.list_checkpoints(often.path / "checkpoints")) < 12
    seldom = tiny_run(**SHORT, log__checkpoint_minutes=0)
    tables = [[row["step"] for row in read_table(run.path / "metrics.csv")] for run in (often, seldom)]
    assert tables[0] == tables[1]


def test_a_run_goes_on_from_a_checkpoint_by_time(
    tiny_run: Callable[..., Run], never_stopped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(10**9))

    def die() -> None:
        raise RuntimeError("as if it were killed")

    with monkeypatch.context() as patch:
        patch.setattr(budget.time, "monotonic", lambda: 60.0 * next(ticks))
        patch.setattr(budget, "SAVE_SHARE", 0)
        patch.setattr(ending, "save_after", lambda *_: None)
        call_before(patch, Loop, "learn", after(1150, die))
        with pytest.raises(RuntimeError, match="killed"):
            tiny_run(**SHORT, log__checkpoint_minutes=0.5)
    run = only_run(tmp_path)
    newest = checkpoint.list_checkpoints(run / "checkpoints", with_state=True)[-1]
    assert 1100 < int(newest.name) < 1150 + 16
    assert int(newest.name) % 500 > 16
    assert flashdqn.train(resume=run, progress=False).summary["weights"] == never_stopped


def test_a_slow_save_makes_the_next_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    clock = budget.SaveClock(5.0)
    assert not clock.is_due()
    for took, waits in ((1.0, 300.0), (60.0, 1200.0)):
        clock.restart(took)
        now[0] += waits - 1
        assert not clock.is_due()
        now[0] += 1
        assert clock.is_due()
    never = budget.SaveClock(0.0)
    never.restart()
    now[0] += 1e9
    assert not never.is_due()


# ---- errors


def fail_with(error: BaseException) -> Callable[..., object]:
    def fail(*_: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize("where", ["collect", "evaluate", "last games"])
def test_an_environment_that_fails_leaves_a_run_that_can_go_on(
    where: str,
    tiny_run: Callable[..., Run],
    never_stopped: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail = fail_with(EnvError("the game raised ValueError: oh."))
    with monkeypatch.context() as patch:
        if where == "collect":
            call_before(patch, Loop, "iterate", after(600, fail))
        else:
            owner, name = (evaluator, "evaluate") if where == "evaluate" else (summary, "evaluate_checkpoint")
            call_before(patch, owner, name, fail)
        with pytest.raises(EnvError, match=r"oh\. What was learned .* go on with: flashdqn train") as caught:
            tiny_run(**SHORT)
    assert caught.value.exit_code == 1
    told = read_summary(only_run(tmp_path))
    assert not told["finished"]
    assert "the game raised ValueError: oh." in told["stopped"]
    assert flashdqn.train(resume=only_run(tmp_path), progress=False).summary["weights"] == never_stopped


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_an_environment_cannot_end_the_program(
    error: BaseException, tiny_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_before(monkeypatch, Loop, "iterate", after(600, fail_with(error)))
    with pytest.raises(EnvError, match=f"raised {type(error).__name__}"):
        tiny_run(**SHORT)
    assert not read_summary(only_run(tmp_path))["finished"]


def test_an_environment_that_fails_and_cannot_be_saved_says_its_own_error(
    tiny_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        monkeypatch.setattr(Loop, "save", fail_with(EnvError("state_dict fails too")))
        raise EnvError("the first error.")

    call_before(monkeypatch, Loop, "iterate", after(600, fail))
    with pytest.raises(EnvError, match=r"^the first error\. The last checkpoint is whole; go on with"):
        tiny_run(**SHORT)
    assert "the first error" in read_summary(only_run(tmp_path))["stopped"]


def test_an_environment_that_goes_to_another_folder(
    tmp_path: Path, never_stopped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    call_before(monkeypatch, Loop, "iterate", lambda *_: os.chdir("elsewhere"))
    run = flashdqn.train(tiny_config(out="runs", **SHORT), progress=False)
    assert run.summary["weights"] == never_stopped
    assert str(run.path).startswith("runs")
    assert (tmp_path / run.path / "report.html").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("error", [ValueError("not now"), ConfigError("not now.")], ids=repr)
def test_an_environment_that_cannot_be_closed(
    error: Exception, tiny_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Snake, "close", fail_with(error), raising=False)
    with pytest.raises(EnvError, match=r"not now.*The training is complete and saved"):
        tiny_run(**SHORT)
    assert read_summary(only_run(tmp_path))["finished"]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:116] DefaultCPUAllocator: can't allocate memory: you tried"
        ),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
    ids=str,
)
def test_without_memory_it_says_what_to_make_smaller(
    error: Exception, tiny_run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_before(monkeypatch, Loop, "learn", after(600, fail_with(error)))
    with pytest.raises(
        MemoryShortageError, match=r"--replay\.capacity.*The last checkpoint is whole"
    ) as caught:
        tiny_run(**SHORT)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1
    assert "not enough memory" in read_summary(only_run(tmp_path))["stopped"]


def test_a_full_disk_is_a_failure_and_the_checkpoint_before_is_whole(
    tiny_run: Callable[..., Run], never_stopped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        call_before(
            patch, checkpoint, "save_file", lambda t, path: "000000001" in str(path) and fail_with(full)()
        )
        with pytest.raises(
            StorageError, match=r"No space left.*The last checkpoint is whole; go on"
        ) as caught:
            tiny_run(**SHORT)
    assert caught.value.exit_code == 1
    run = only_run(tmp_path)
    assert not list((run / "checkpoints").glob(".*"))
    assert "No space left" in read_summary(run)["stopped"]
    assert flashdqn.train(resume=run, progress=False).summary["weights"] == never_stopped


def spoil_reward(one: Loop) -> None:
    one.parts.ring.reward.fill_(float("nan"))


def spoil_weights(one: Loop) -> None:
    one.parts.learner.flat.values.fill_(float("nan"))


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (
            spoil_reward,
            EnvError,
            r"snake gave .* gradient step \d+ holds \d+ of 32 in reward, at step",
        ),
        (spoil_weights, DivergedError, r"The loss of gradient step \d+ is not finite .*smaller --learn\.lr"),
    ],
    ids=["the environment's", "the weights"],
)
def test_numbers_that_are_not_finite_are_summed_up_but_never_saved(
    spoil: Callable[[Loop], None],
    error: type[Exception],
    said: str,
    tiny_run: Callable[..., Run],
    never_stopped: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spoil_late(one: Loop) -> None:
        if one.parts.counts.transitions >= 600:
            spoil(one)

    with monkeypatch.context() as patch:
        call_before(patch, Loop, "iterate", spoil_late, times=1000)
        with pytest.raises(error, match=said) as caught:
            tiny_run(**SHORT)
    run = only_run(tmp_path)
    assert "the last good checkpoint is" in str(caught.value)
    assert ("--learn.lr" in str(caught.value)) == (error is DivergedError)
    assert read_summary(run)["stopped"] == str(caught.value)
    assert max(int(path.name) for path in checkpoint.list_checkpoints(run / "checkpoints")) < 600
    assert flashdqn.train(resume=run, progress=False).summary["weights"] == never_stopped


def test_a_replay_that_would_fail_again_is_not_saved(
    tiny_run: Callable[..., Run], never_stopped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad number that no batch has drawn yet: the checkpoint before it stays the newest."""

    def spoil_newest(one: Loop, *_: Any) -> None:
        if one.parts.counts.transitions >= 900:
            one.parts.ring.obs[int(one.parts.ring.head)].view(-1)[0] = float("inf")

    with monkeypatch.context() as patch:
        call_before(patch, Loop, "save", spoil_newest, times=1000)
        with pytest.raises(
            EnvError, match=r"the replay holds 1 of [\d,]+ in obs, at step .*then go on with: "
        ):
            tiny_run(**SHORT)
    points = checkpoint.list_checkpoints(only_run(tmp_path) / "checkpoints", with_state=True)
    assert 500 <= int(points[-1].name) < 900
    assert flashdqn.train(resume=only_run(tmp_path), progress=False).summary["weights"] == never_stopped


def test_an_error_of_our_own_saves_the_run_first(
    tiny_run: Callable[..., Run], never_stopped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        call_before(patch, Loop, "occasionally", after(600, fail_with(ZeroDivisionError("ours"))))
        with pytest.raises(ZeroDivisionError, match="ours"):
            tiny_run(**SHORT)
    run = only_run(tmp_path)
    assert read_summary(run)["stopped"] == "ZeroDivisionError: ours"
    newest = checkpoint.list_checkpoints(run / "checkpoints", with_state=True)[-1]
    assert int(newest.name) >= 600


@pytest.mark.parametrize(
    ("budgets", "named"),
    [({"steps": 500}, "steps"), ({"steps": None, "episodes": 5}, "episodes")],
    ids=["steps", "episodes"],
)
def test_a_finished_run_says_which_budget_ended_it(
    budgets: dict[str, Any], named: str, tiny_run: Callable[..., Run]
) -> None:
    assert tiny_run(**budgets).summary["stopped"] == f"budget: {named}"


# ---- as a process


def test_as_a_process_of_its_own(tmp_path: Path) -> None:
    """Hang up, with the output gone: the run is saved all the same."""
    words = tiny_flags(out=tmp_path / "runs", steps=1_000_000_000)
    process = start("train", "snake", *words, start_new_session=True, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    for line in process.stdout:
        if "steps/s" in line:
            break
    process.stdout.close()
    os.killpg(process.pid, signal.SIGHUP)
    try:
        assert process.wait(60) == 75
    finally:
        process.kill()
    summary = read_summary(only_run(tmp_path))
    assert summary["stopped"] == "SIGHUP"
    points = checkpoint.list_checkpoints(only_run(tmp_path) / "checkpoints", with_state=True)
    assert int(points[-1].name) == summary["steps"]
