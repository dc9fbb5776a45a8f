"""`flashdqn watch` in a terminal, and without one."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from flashdqn import Run
from flashdqn.cli import main as cli
from flashdqn.core.errors import ConfigError, EnvError, FlashDQNError
from flashdqn.envs.stage import GameStage, open_stage
from flashdqn.show.bars import draw_signed_bar
from flashdqn.show.play import GameTurn, play_turns
from flashdqn.show.players import Players
from flashdqn.show.watch_terminal import (
    Pace,
    ValueAxis,
    choose_listed_actions,
    draw_action_values,
    draw_terminal_frame,
    legal_value_range,
    show_live_game,
)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.dispatch_command(["watch", *words]) == 0
    return capsys.readouterr().out


def test_without_a_terminal_the_last_frame_and_a_summary_are_printed(
    finished_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(capsys, str(finished_run.path), "--seed", "4", "--device", "cpu")
    assert out.count("┌") == 1
    assert re.search(r"Game 1 \(seed 4\): score \d+, length \d+ of 36; .+ after \d+ steps, return", out)
    assert out == said(capsys, str(finished_run.path), "--seed", "4", "--device", "cpu")
    assert "\x1b" not in out


def test_all_frames_and_several_games(finished_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, str(finished_run.path), "--seed", "4", "--episodes", "2", "--frames")
    steps = [int(number) for number in re.findall(r"after (\d+) steps", out)]
    assert len(steps) == 2
    assert out.count("┌") == sum(steps) + 2
    assert re.search(r"2 games: return \S+, \d+ steps on average", out)
    assert "▶ " in out  # the chosen action


def test_another_checkpoint_plays_another_game(finished_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    names = [player.name for player in Players(finished_run.path, "cpu").lineup()]
    heads = set()
    for name in (names[0], str(int(names[1])), names[-1]):
        out = said(capsys, str(finished_run.path), "--checkpoint", name, "--seed", "1")
        heads.add(out.splitlines()[0].split(",", 1)[1].split(", seed")[0])
    assert len(heads) == 3
    path = str(finished_run.path / "checkpoints" / names[1])
    assert f"{int(names[1]):,} steps" in said(capsys, path, "--seed", "1")


def test_a_film_and_a_picture(finished_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film, first, last = (tmp_path / name for name in ("game.gif", "first.png", "last.png"))
    out = said(capsys, str(finished_run.path), "--seed", "2", "--gif", str(film), "--png", str(last))
    assert str(film) in out
    said(capsys, str(finished_run.path), "--seed", "2", "--png", str(first), "--frame", "0", "--width", "64")
    with Image.open(film) as a, Image.open(first) as b, Image.open(last) as c:
        assert (a.width, b.width, c.width) == (320, 64, 640)
        assert a.n_frames > 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--episodes", "0"], "--episodes must be at least 1"),
        (["--fps", "-1"], "--fps must be at least 0"),
        (["--width", "3", "--png", "x.png"], "--width must be at least 16"),
        (["--seed", "-1"], "--seed must be at least 0"),
        (["--port", "99999", "--web"], "--port must be at most 65535"),
        (["--port", "8000"], "--port needs --web"),
        (["--frame", "3"], "--frame needs --png"),
        (["--web", "--gif", "x.gif"], "--web needs no --gif"),
        (["--gif", "nowhere/x.gif"], "There is no folder"),
        (["--checkpoint", "17"], "There is no checkpoint '17'; this run has untrained, "),
        (["--checkpoint", "../../etc"], "There is no checkpoint"),
        (["--png", "x.png", "--frame", "100000"], "--frame asks for 100000"),
        (["--wed"], "did you mean '--web'"),
    ],
)
def test_a_mistake_is_one_sentence(
    finished_run: Run, words: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        cli.dispatch_command(["watch", str(finished_run.path), *words])
    assert not list(tmp_path.iterdir())


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(FlashDQNError, match="is not a run folder"):
        cli.dispatch_command(["watch", str(tmp_path)])


def test_a_terminal_shows_the_game_as_it_goes(finished_run: Run) -> None:
    players = Players(finished_run.path, "cpu")
    stage = open_stage(players.config.env)
    turns = list(play_turns(players.agent(players.first), stage, 6))
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=40, color_system="truecolor")
    done = show_live_game(console, stage.view, iter(turns), 6, 0.0, "a run")
    text = out.getvalue()
    assert done.turns == turns[-1].step
    assert done.ending in text
    assert "\x1b[38;2;" in text  # colors
    assert "steps/s" in text


def test_values_are_bars_with_the_chosen_and_the_illegal_marked() -> None:
    stage = open_stage(small_snake())
    turn = GameTurn(0, (), (1.0, 5.0, 3.0), (True, False, True), 2, 0.0, 0.0, [("score", "0")])
    out = io.StringIO()
    Console(file=out, width=100).print(draw_action_values(stage.view, turn))
    lines = out.getvalue().splitlines()
    assert lines[1].startswith("  straight")
    assert "not legal" in lines[2]
    assert lines[3].startswith("▶ left")
    assert lines[3].count("█") > lines[1].count("█")
    assert legal_value_range(turn) == (1.0, 3.0)
    many = GameTurn(0, (), tuple(map(float, range(100))), (True,) * 50 + (False,) * 50, 49, 0.0, 0.0, [])
    assert list(choose_listed_actions(many)) == list(range(49, 33, -1))
    over = GameTurn(3, (), (), None, None, 0.0, 0.0, [], "bit itself")
    Console(file=out, width=100).print(draw_terminal_frame(stage.view, over, "x", None))
    assert "bit itself" in out.getvalue()


def small_snake() -> Any:
    from flashdqn.envs import SnakeConfig

    return SnakeConfig(size=4, start_length=2)


def test_the_pace_is_kept_without_hurrying_after_a_pause() -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(10.0, lambda: now[0], sleep)
    for _ in range(3):
        pace.wait()
    assert slept == pytest.approx([0.1, 0.1])
    now[0] += 5.0  # somebody suspended the terminal
    slept.clear()
    pace.wait()
    pace.wait()
    assert slept == pytest.approx([0.1])
    assert pace.speed == pytest.approx(5 / now[0])
    free = Pace(0.0, lambda: 1.0, sleep)
    slept.clear()
    free.wait()
    assert slept == []


def test_bars_begin_at_zero_and_their_axis_does_not_jump() -> None:
    stage, axis = open_stage(small_snake()), ValueAxis()

    def draw(*values: float) -> list[str]:
        turn = GameTurn(0, (), values, None, 0, 0.0, 0.0, [])
        out = io.StringIO()
        Console(file=out, width=100).print(draw_action_values(stage.view, turn, axis))
        return out.getvalue().splitlines()

    lines = draw(-11.9, 0.0, 8.0)
    zeros = {line.index("│") for line in lines[1:]}
    assert len(zeros) == 1
    left, none, right = (line.split("│") for line in lines[1:])
    assert "█" in left[0]
    assert "█" not in left[1]
    assert "█" not in none[0] + none[1]
    assert "█" not in right[0]
    assert "█" in right[1]
    assert "from -20 to 10" in lines[0]
    assert draw(-0.1, -0.2, 0.1)[0] == lines[0]
    assert "from -20 to 50" in draw(-0.1, 21.0, 0.1)[0]


@pytest.mark.parametrize(
    ("value", "low", "high", "drawn"),
    [
        (1.0, 0.0, 1.0, "│██████"),
        (-1.0, -1.0, 0.0, "██████│"),
        (-0.5, -1.0, 0.0, "   ███│"),
        (-0.2, -1.0, 1.0, "  ▐│   "),
        (-1e-9, -1.0, 1.0, "  ▐│   "),
        (0.5, -1.0, 1.0, "   │█▌ "),
        (0.0, 0.0, 0.0, "│      "),
        (math.nan, -1.0, 1.0, "   │   "),
        (1e-9, -1.0, 1e-9, "      │"),
    ],
)
def test_a_signed_bar(value: float, low: float, high: float, drawn: str) -> None:
    assert draw_signed_bar(value, low, high, 7) == drawn


def test_an_environment_that_cannot_be_closed_is_told_after_the_game(
    finished_run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(GameStage, "close", lambda self: EnvError("game cannot be closed: it is stuck."))
    with pytest.raises(EnvError, match="cannot be closed"):
        cli.dispatch_command(["watch", str(finished_run.path), "--seed", "4"])
    assert "Game 1" in capsys.readouterr().out
