"""`flashdqn profile`: what it prints and writes, what it leaves alone, and how it refuses."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from profile_tiny import TINY, Pretended, Time, Told, tiny

from flashdqn.cli import main as cli
from flashdqn.config import Config
from flashdqn.core.errors import ConfigError, ExecutionError
from flashdqn.profile import contest as experiments_run
from flashdqn.profile import profile as profiling
from flashdqn.profile.contest import ExperimentContest, collect_outcomes
from flashdqn.profile.display import Lines, OneLine, Unseen, make_hidden_display, make_observer
from flashdqn.profile.experiments import AGAIN, BASELINE, Experiment, list_experiments
from flashdqn.profile.profile import Options, Starter, measure_recommended, take_profile
from flashdqn.training.progress import Silent

Called = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Called:
    """Run `flashdqn profile …` in this process, in its own folder: exit code, output, error output."""
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "here").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(experiments_run, "PREPARED", float("inf"))  # a busy machine leaves nothing out

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["flashdqn", "profile", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        code = stop.value.code
        return code if isinstance(code, int) else 0, captured.out, captured.err

    return run


def flags(**changes: Any) -> list[str]:
    words: list[str] = []
    for key, value in (TINY | {key.replace("__", "."): value for key, value in changes.items()}).items():
        flag = key.replace("_", "-")
        if value is False:
            group, _, name = flag.rpartition(".")
            words.append(f"--{group}.no-{name}")
        else:
            words += [f"--{flag}", *map(str, value if isinstance(value, list) else [value])]
    return words


QUICK = ("--rounds", "3", "--seconds", "0.5")


def test_a_whole_profile_leaves_nothing_behind(call: Called, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    code, text, error = call(
        *["snake-flood", *flags(out=out), *QUICK, "--only", "ratio-half,boards-32,no-flood"],
        *["--json", tmp_path / "found.json"],
    )
    assert (code, error) == (0, "")
    for word in ("act", "step", "append", "sample", "update", "warm-up", "evaluation", "checkpoint"):
        assert word in text
    for word in ("transitions/s", "train ratio", "baseline", "again", "ratio-half", "another task"):
        assert word in text
    assert "What would make it faster" in text
    assert {path.name: path.read_text() for path in out.iterdir()} == {"mine.txt": "mine"}
    assert not list((tmp_path / "here").iterdir())
    assert not list((tmp_path / "temporary").glob("flashdqn*"))
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["preset"] == "snake-flood"
    assert found["config"]["envs"] == 16
    names = [one["name"] for one in found["outcomes"]]
    assert names[:5] == ["baseline", "again", "ratio-half", "boards-32", "no-flood"]
    assert [one["relative_ratio"] for one in found["outcomes"]][:5] == [1, 1, 0.5, 1, 1]
    assert found["outcomes"][2]["settings"] == {"train_ratio": 0.0625}
    assert not found["interrupted"]


def test_phases_alone(call: Called) -> None:
    code, text, _ = call("snake", *flags(), *QUICK, "--only", "phases")
    assert code == 0
    assert "Where the time goes" in text
    assert "Experiments" not in text
    assert "What would make it faster" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["snak"], "Unknown preset 'snak'; did you mean 'snake'?"),
        (["snake", "--rounds", "2"], "--rounds must be at least 3"),
        (["snake", "--rounds", "many"], "--rounds takes a whole number"),
        (["snake", "--seconds", "0"], "--seconds must be a time above 0"),
        (["snake", "--seconds", "long"], "90s, 1.5m or 2h"),
        (["snake", "--only", "board"], "did you mean 'boards'?"),
        (["snake", "--skip", "ratio-haf"], "did you mean 'ratio-half'?"),
        (["snake", "--ony", "boards"], "Unknown flag '--ony'; did you mean '--only'?"),
        (["snake", "--envs", "0"], "envs must be at least 1"),
        (["snake", "twice"], "the preset comes first"),
        (["--resume", "runs/x"], "--config RUN/config.json"),
        (["snake", "--json", "no/such/folder.json"], "There is no folder"),
        (["snake", "--json", "."], "cannot be written"),
        (["snake", "--replay.capacity", "1000000000000"], "use --replay.capacity"),
    ],
)
def test_bad_flags(words: list[str], message: str, call: Called, tmp_path: Path) -> None:
    code, _, error = call(*words)
    assert code == 2
    assert message in error
    assert error.startswith("flashdqn: ")
    assert error.count("\n") == 1
    assert not list((tmp_path / "here").iterdir())


def test_help_teaches(call: Called) -> None:
    code, text, _ = call("--help")
    assert code == 0
    for word in (
        "--only",
        "--skip",
        "--rounds",
        "--seconds",
        "--json",
        "no-training",
        "`flashdqn train`",
        "Ctrl-C",
    ):
        assert word in " ".join(text.split())


def test_ctrl_c_shows_what_there_is(call: Called, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the third round, in the turn of the first experiment that has one."""
    turn = ExperimentContest._turn

    def stop(contest: ExperimentContest, contender: Any) -> None:
        if len(contender.turns) == 2:
            raise KeyboardInterrupt
        turn(contest, contender)

    monkeypatch.setattr(ExperimentContest, "_turn", stop)
    code, text, _ = call("snake", *flags(), *QUICK, "--only", "ratio-half", "--json", tmp_path / "found.json")
    assert code == 130
    assert "Where the time goes" in text
    assert "too few rounds" in text
    assert "stopped before the end" in text
    assert json.loads((tmp_path / "found.json").read_text())["interrupted"]
    assert not list((tmp_path / "temporary").glob("flashdqn*"))


def test_ctrl_c_before_the_first_turn(call: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ExperimentContest, "prepare", stop)
    code, text, _ = call("snake", *flags(), *QUICK)
    assert code == 130
    assert "Where the time goes" in text
    assert "Stopped before any experiment was measured." in text


def test_experiments_that_cannot_be_are_left_out(call: Called) -> None:
    code, text, _ = call(*["snake", *flags(replay__capacity=600), *QUICK, "--only", "boards-1024,boards-64"])
    assert code == 0
    assert "left out: boards-1024: replay.capacity 600 is too small for 1024 environments" in text
    assert "boards-64" in text


def test_a_mode_that_does_not_work_is_left_out(tmp_path: Path) -> None:
    """It would fall back to another mode, and be measured under a wrong name."""
    config = tiny(network__normalize=True, runtime__mode="eager")  # not supported by the hand-written update

    def ready(name: str) -> None:
        bench = profiling.Bench(torch.device("cpu"), tmp_path, Silent, iter(range(9)))  # type: ignore[arg-type]
        known = {one.name: one for one in list_experiments(config, False, 2)}
        Starter(config, bench, (1, 1))(known[name]).close()

    with pytest.raises(ExecutionError, match="that the network normalizes"):
        ready("mode-native")
    ready("no-logging")


def test_what_auto_chooses_is_the_baseline_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments_run, "PREPARED", float("inf"))
    told = Told()
    options = Options(rounds=3, seconds=0.3, only=("ratio-half", "modes"), skip=("mode-compile",))
    found = take_profile(tiny(), options, told, Silent)
    assert found.mode == "native"
    assert [one.name for one in found.outcomes][:4] == ["baseline", "again", "ratio-half", "mode-eager"]
    assert [one.mode for one in found.outcomes][:4] == ["native"] * 3 + ["eager"]
    assert found.config["runtime"]["mode"] == "auto"  # as it was asked for
    assert told.ended
    assert told.prepared[:2] == ["baseline", "again"]


def recommended(
    rates: dict[str, list[float]], config: Config
) -> tuple[ExperimentContest, list[Any], list[str]]:
    time, told, made = Time(), Told(), []
    known = {one.name: one for one in list_experiments(config, False, 2, (1, 2))}
    known |= {"baseline": BASELINE, "again": AGAIN}

    class Starts:
        baseline = config

        def __call__(self, one: Experiment) -> Pretended:
            made.append(one.flags)
            return Pretended(time, rates[one.name])

    contest = ExperimentContest(1000.0, told, time)
    contest.prepare([known[name] for name in rates if name != "recommended"], Starts())
    contest.take_turns(3)
    found = collect_outcomes(contest, config)
    return contest, measure_recommended(contest, found, Options(rounds=3), Starts()), made  # type: ignore[arg-type]


def test_several_flags_are_measured_as_one() -> None:
    rates = {
        "baseline": [1.0],
        "again": [1.0],
        "boards-1024": [1.4],
        "threads-2": [1.3],
        "recommended": [1.6],
    }
    contest, found, made = recommended(rates, tiny())
    assert made[-1] == "--envs 1024 --runtime.threads 2"
    assert [one.name for one in found] == ["recommended"]
    assert found[0].speed_up is not None
    assert found[0].speed_up.median == pytest.approx(1.6)
    assert found[0].rounds == 3
    assert contest.contenders[-1].experiment.name == "recommended"  # closed with the others


def test_one_flag_is_measured_already() -> None:
    rates = {"baseline": [1.0], "again": [1.0], "boards-1024": [1.4], "ratio-half": [2.0]}
    assert recommended(rates, tiny())[1] == []


def test_options_refuse_what_cannot_be() -> None:
    with pytest.raises(ConfigError):
        Options(rounds=1)
    with pytest.raises(ConfigError):
        Options(seconds=float("inf"))


def test_displays_draw_for_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    for terminal in (True, False):
        shown = make_hidden_display(terminal)
        shown.begin("a training", 0.5)
        shown.note("something")
        shown.tick(0.0, 1, 1, 0.5)
        shown.end()
        assert isinstance(shown, Unseen) is terminal
    assert capsys.readouterr().out == ""


def test_what_is_seen_meanwhile() -> None:
    from rich.console import Console

    for terminal, kind in ((False, Lines), (True, OneLine)):
        console = Console(record=True, force_terminal=terminal, width=100, quiet=False)
        watch = make_observer(console)
        assert type(watch) is kind
        watch.note("[bold]as it is")
        watch.preparing("boards-32", 1, 3, 90.0)
        for name in ("baseline", "boards-32"):
            watch.turn(name, 1, 5, 61.0)
        watch.end()
        text = console.export_text()
        assert "[bold]as it is" in text
        if not terminal:
            assert text.count("Round 1 of 5; time left 1:01") == 1
