"""`flashdqn watch`: the trained agent plays, in the terminal, in a file or in the browser."""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from flashdqn.as_gymnasium.names import register_gymnasium_envs
from flashdqn.cli.arguments import Trust, parse, read_permission
from flashdqn.cli.env_flags import EnvChange, split_env_flags
from flashdqn.cli.latest import choose_run
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.files import check_writable_file
from flashdqn.core.ranges import MANY, Between, describe_value
from flashdqn.show.terminal import SteadyConsole

#: Endings that say what a file holds.
PICTURES = {".gif", ".png", ".jpg", ".jpeg", ".mp4", ".webm", ".webp"}

if TYPE_CHECKING:
    from flashdqn.show.players import Players


@dataclass(frozen=True)
class WatchArguments:
    """Watch a trained agent play, without exploration.

    In the terminal, in a file, or in the browser with every checkpoint of the run:
      flashdqn watch runs/snake-flood-20261115-120000
      flashdqn watch RUN --episodes 3 --fps 30 --seed 7
      flashdqn watch RUN --web
      flashdqn watch RUN --gif game.gif
      flashdqn watch RUN --png moment.png --frame 100
      flashdqn watch RUN --checkpoint 500049
      flashdqn watch RUN --env.size 15
    Any --env.… flag of its task changes the games, if the network can take them.
    """

    run: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RUN")] = None
    """A run folder (its best checkpoint plays), or one checkpoint in it; without one, the latest run in runs."""
    checkpoint: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Another checkpoint, by its number of steps; `untrained` is the network before its first step."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="N"), Between(0, 2**53 - 1)] = None
    """Seed of the first game; each next game uses the next seed. By default one that training has not used."""
    episodes: Annotated[int, Between(1, 10**6)] = 1
    """Games to play."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the network computes."""
    fps: Annotated[float, Between(0, 1000)] = 12.0
    """Moves per second in the terminal and in a GIF; 0: as fast as possible."""
    frames: bool = False
    """If the output is not a terminal: print every frame, not only the last."""
    gif: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the first game as a GIF, instead of showing it."""
    png: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write one moment of the first game as a picture, instead of showing it."""
    frame: Annotated[int | None, tyro.conf.arg(metavar="STEP"), Between(0, MANY)] = None
    """The step that --png shows; by default the last."""
    width: Annotated[int | None, tyro.conf.arg(metavar="PIXELS"), Between(16, 4000)] = None
    """Pixels across; by default 640 for a picture, and what the game needs for a GIF, 320 to 640."""
    web: bool = False
    """Serve a page on this machine that plays the games: Ctrl-C ends it."""
    port: Annotated[int | None, tyro.conf.arg(metavar="N"), Between(0, 65535)] = None
    """The page's port; by default 8321, or the next that is free."""
    trust: Trust = False


def run_command(arguments: list[str]) -> int:
    """Run `flashdqn watch`."""
    permission, arguments = read_permission(arguments)
    permission.allow_working_folder()
    games, arguments = split_env_flags(arguments)
    known = [field.name for field in dataclasses.fields(WatchArguments)][1:]
    parsed = check_watch_arguments(parse("watch", WatchArguments, arguments, known))
    run = choose_run(parsed.run, "watch")
    from flashdqn.show.players import Players

    register_gymnasium_envs()
    players = Players(run, parsed.device, permission, EnvChange("watch", games))
    if parsed.checkpoint is not None:
        players.first = find_checkpoint_name(players, parsed.checkpoint)
    console = SteadyConsole(soft_wrap=not sys.stdout.isatty())
    if parsed.web:
        return serve_games(console, players, parsed)
    if parsed.gif is not None or parsed.png is not None:
        return write_game_files(console, players, parsed)
    return watch_in_terminal(console, players, parsed)


def check_watch_arguments(parsed: WatchArguments) -> WatchArguments:
    """Refuse impossible arguments before anything is played."""
    for given, needed, there in (
        ("--port", "--web", parsed.port is None or parsed.web),
        ("--frame", "--png", parsed.frame is None or parsed.png is not None),
        ("--web", "no --gif and --png", not parsed.web or (parsed.gif is None and parsed.png is None)),
    ):
        if not there:
            raise ConfigError(f"{given} needs {needed}.")
    for path, ending in ((parsed.gif, ".gif"), (parsed.png, ".png")):
        if path is None:
            continue
        if path.suffix.lower() in PICTURES - {ending}:
            raise ConfigError(f"--{ending[1:]} writes a file that ends in {ending}, not {path.suffix}.")
        check_writable_file(path)
    return parsed


def find_checkpoint_name(players: Players, wanted: str) -> str:
    """The checkpoint with this name, number or path."""
    from flashdqn.show.players import UNTRAINED

    name = Path(wanted).name
    there = [player.name for player in players.lineup()]
    found = next(
        (
            p
            for p in there
            if p == name or (name.isdecimal() and p.isdecimal() and p.zfill(20) == name.zfill(20))
        ),
        None,
    )
    if found is None:
        steps = ", ".join(str(int(p)) for p in there if p != UNTRAINED)
        raise ConfigError(
            f"There is no checkpoint {describe_value(wanted)}; this run has {UNTRAINED}, {steps}."
        )
    return found


def first_seed(parsed: WatchArguments, seed: int) -> int:
    """The seed that was asked for, or one from the run's seed that is short enough to type."""
    from flashdqn.compute.seeds import purpose_seed

    return parsed.seed if parsed.seed is not None else purpose_seed(seed, "watch") % 1000


def describe_player(players: Players) -> str:
    """The run and the checkpoint that plays."""
    name = players.first
    return f"{players.folder.path.name}, " + (f"{int(name):,} steps" if name.isdigit() else name)


def watch_in_terminal(console: SteadyConsole, players: Players, parsed: WatchArguments) -> int:
    """Show the games live in a terminal; print text if the output is not a terminal."""
    from flashdqn.envs.stage import open_stage
    from flashdqn.show.play import play_turns
    from flashdqn.show.watch_terminal import print_game, show_live_game

    agent, stage = players.agent(players.first), open_stage(players.config.env)
    if stage.note:
        console.print(stage.note, highlight=False, markup=False)
    seed = first_seed(parsed, players.config.seed)
    results = []
    try:
        for number in range(parsed.episodes):
            turns = play_turns(agent, stage, seed + number)
            if console.is_terminal:
                done = show_live_game(
                    console, stage.view, turns, seed + number, parsed.fps, describe_player(players)
                )
            else:
                done = print_game(
                    console, stage.view, turns, seed + number, parsed.frames, describe_player(players)
                )
            console.print(done.sentence(number + 1), highlight=False, markup=False)
            results.append(done)
    finally:
        problem = stage.close()
    if len(results) > 1:
        mean = sum(result.total for result in results) / len(results)
        steps = sum(result.turns for result in results) / len(results)
        console.print(
            f"{len(results)} games: return {mean:.4g}, {steps:,.0f} steps on average", highlight=False
        )
    return finish_watching(problem)


def write_game_files(console: SteadyConsole, players: Players, parsed: WatchArguments) -> int:
    """Write a GIF, a picture, or both, of the same game."""
    from flashdqn.envs.stage import open_stage
    from flashdqn.show.film import choose_film_width, record_film_turns, save_film, save_picture
    from flashdqn.show.watch_terminal import summarize_game

    stage, seed = open_stage(players.config.env), first_seed(parsed, players.config.seed)
    try:
        turns, chosen = record_film_turns(players.agent(players.first), stage, seed, parsed.frame)
    finally:
        problem = stage.close()
    for note in (stage.note, summarize_game(seed, turns[-1]).sentence(1)):
        if note:
            console.print(note, highlight=False, markup=False)
    if parsed.png is not None:
        save_picture(stage.view, chosen, parsed.png, parsed.width or 640)
        console.print(f"Picture {parsed.png}", highlight=False, markup=False)
    if parsed.gif is not None:
        width = parsed.width or choose_film_width(stage.view)
        count, length = (
            save_film(stage.view, turns, parsed.gif, parsed.fps or 50.0, width),
            turns[-1].step + 1,
        )
        note = "" if count == length else f", {count} of {length} moments"
        console.print(f"Film    {parsed.gif}{note}", highlight=False, markup=False)
    return finish_watching(problem)


def finish_watching(problem: EnvError | None) -> int:
    """The exit code; an environment that could not be closed is a failure, after everything was shown."""
    if problem is not None:
        raise problem
    return 0


def serve_games(console: SteadyConsole, players: Players, parsed: WatchArguments) -> int:
    """Serve the games in the browser until Ctrl-C."""
    from flashdqn.show.web.games import Games
    from flashdqn.show.web.server import DEFAULT_PORT, open_server

    games = Games(players, first_seed(parsed, players.config.seed))
    games.about()  # errors of the run appear here, not in the browser
    server = open_server(games, parsed.port)
    with interrupt_on_signals(), server:
        try:
            if parsed.port is None and server.port != DEFAULT_PORT:
                console.print(f"Port {DEFAULT_PORT} is taken; this is the next free one.", highlight=False)
            console.print(
                f"Watch {players.folder.path.name} at {server.address}", highlight=False, markup=False
            )
            console.print("Only this machine can see it. Ctrl-C ends it.", highlight=False)
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            console.print("Stopped.", highlight=False)
    return 0


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Make SIGTERM act as Ctrl-C does."""

    def stop(_: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    names = (signal.SIGTERM, signal.SIGINT)  # a shell makes background processes ignore SIGINT
    before: list[Callable[[int, FrameType | None], Any] | int | None]
    before = [signal.signal(name, stop) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
