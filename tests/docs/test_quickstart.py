"""The first page's commands, one after the other, as a new user would type them; only the budgets are smaller."""

from __future__ import annotations

import json
import re
import runpy
import signal
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from doc_commands import fill_in
from doc_desk import lay_out
from doc_pages import ROOT, Command, commands, pages

from conftest import start, tiny_flags
from flashdqn import Run
from flashdqn.cli import main as cli

#: Put behind a command, or for the doctor before the script, so that it ends soon. The last flag of a name counts.
SMALLER: dict[str, list[str]] = {
    "train": tiny_flags(steps=2500, runtime__mode="eager"),
    "resume": ["--steps", "3500"],
    "sweep": ["--trials", "2", "--seeds", "1", *tiny_flags(steps=2500, runtime__mode="eager")],
    "eval": ["--episodes", "4"],
    "watch": ["--fps", "0"],
    "report": [],
    "export": ["--observations", "100", "--episodes", "2"],
    "profile": [*tiny_flags(steps=2500, runtime__mode="eager"), "--only", "phases", "--seconds", "5"],
    "doctor": ["--seconds", "60"],  # the script is over sooner
    "presets": [],
    "envs": [],
    "cache": [],
    "landscapes": ["--size", "20"],
}


def name_of(arguments: list[str]) -> str:
    """Which of the commands: going on is another one than training."""
    return "resume" if "--resume" in arguments else arguments[0]


def smaller(arguments: list[str]) -> list[str]:
    """The same command, soon over."""
    more = SMALLER[name_of(arguments)]
    if arguments[0] == "doctor":
        return ["doctor", *more, *arguments[1:]]
    return [*arguments, *more]


def in_blocks(page: str) -> list[Command]:
    """The commands of our command line that stand in a page's blocks."""
    return [
        command
        for command in commands(ROOT / "docs" / page)
        if command.words[0] == "flashdqn" and not command.mention
    ]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user is."""
    lay_out(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")  # the commands are for a clone
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def serve(arguments: list[str]) -> str:
    """`flashdqn watch RUN --web`: the page answers, and Ctrl-C ends it."""
    server = start(*arguments, "--port", "0")
    try:
        assert server.stdout is not None
        first = server.stdout.readline()
        address = re.search(r"http://\S+", first)
        assert address, first
        with urllib.request.urlopen(address[0], timeout=20) as answer:
            assert answer.status == 200
        server.send_signal(signal.SIGINT)
        said, _ = server.communicate(timeout=20)
        assert server.returncode == 0
        return first + said
    finally:
        server.kill()
        server.communicate()


def test_the_first_ten_minutes(desk: Path, finished_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    said: dict[str, str] = {}
    run = finished_run.path  # until there is one of our own
    for command in in_blocks("index.md"):
        arguments = fill_in(command.words[1:], run)
        if arguments[0] == "report" and len(command.words) > 4:  # two runs: ours and another
            arguments = [*fill_in(command.words[1:3], run), str(finished_run.path), *command.words[4:]]
        if "--web" in arguments:
            said["web"] = serve(arguments)
            continue
        code = cli.dispatch_command(smaller(arguments))
        output = capsys.readouterr().out
        assert code == 0, f"{command.where} {' '.join(command.words)}\n{output}"
        said[name_of(arguments)] = output
        if name_of(arguments) == "train":
            (run,) = (desk / "runs").iterdir()
    assert "score" in said["eval"]
    assert "step" in said["watch"]
    assert "Stopped." in said["web"]
    assert json.loads((run / "summary.json").read_text())["steps"] >= 3500
    assert "act" in said["profile"]
    assert "fresh seed" in said["sweep"]
    assert "Where the time goes" in said["doctor"]
    assert "snake-flood" in said["presets"]
    assert "--env.size" in said["envs"]
    for name in ("game.gif", "comparison.html", "snake.onnx"):
        assert (desk / name).stat().st_size > 1000, name
    assert (run / "report.html").stat().st_size > 10_000


def test_landscapes_are_shown(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in in_blocks("tasks.md"):
        if command.words[1] == "landscapes":
            assert cli.dispatch_command(smaller(list(command.words[1:]))) == 0
    assert "can burn" in capsys.readouterr().out
    assert (desk / "landscape.png").is_file()


def test_every_command_of_the_docs_is_one_of_those_that_were_run() -> None:
    kinds = {
        name_of(list(command.words[1:]))
        for page in pages()
        for command in commands(page)
        if command.words[0] == "flashdqn"
    }
    run = {name_of(list(command.words[1:])) for command in in_blocks("index.md")} | {
        "fuelbreaks",  # test_fuelbreaks_command.py
        "landscapes",
        "plan",  # test_plan.py
    }
    assert kinds <= run, f"No test runs {sorted(kinds - run)} to the end: put it into docs/index.md."


def program(file: str) -> Callable[..., None]:
    """`python FILE arguments`, in this process."""

    def run(*arguments: str) -> None:
        words, path = sys.argv, list(sys.path)
        sys.argv, sys.path[:0] = [file, *arguments], [str((ROOT / file).parent)]
        try:
            runpy.run_path(str(ROOT / file), run_name="__main__")
        finally:
            sys.argv, sys.path[:] = words, path

    return run


def test_the_page_of_results_is_what_its_program_writes(desk: Path) -> None:
    """docs/results.md names a command, and has not been changed since by hand."""
    page = ROOT / "docs" / "results.md"
    (command,) = (c for c in commands(page) if "benchmarks/quality.py" in c.words)
    flag, _ = command.words[2:]
    program("benchmarks/quality.py")(flag, str(desk / "results.md"))
    assert (desk / "results.md").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
