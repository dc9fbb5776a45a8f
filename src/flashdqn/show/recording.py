"""A game inside a page: recorded once, thinned if it is long, compressed, and played back by `web/player.js`."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flashdqn.compute.seeds import purpose_seed
from flashdqn.core.drawing.scene import Picture
from flashdqn.core.user_code import NO_PERMISSION, Permission
from flashdqn.envs.stage import open_stage
from flashdqn.show.play import GameTurn, play_turns
from flashdqn.show.players import CheckpointPlayer, Players
from flashdqn.show.web.games import describe_stage
from flashdqn.show.web.page import read_web_file

#: A moment of a drawn game takes little space, one of a game of pictures much more.
MOST_DRAWN, MOST_PICTURES = 1200, 160
STEPS = 20_000
SECONDS = 6.0


def record(run: Path, seconds: float = SECONDS, permission: Permission = NO_PERMISSION) -> dict[str, Any]:
    """A game of the best checkpoint, with its own seed, as plain data for the player."""
    players = Players(run, permission=permission)
    stage = open_stage(players.config.env)
    seed = purpose_seed(players.config.seed, "watch") % 1000
    try:
        agent = players.agent(players.first)
        turns = collect_turns(lambda thinning: play_turns(agent, stage, seed, STEPS, thinning.wants), seconds)
        about = describe_stage(stage)
    finally:
        stage.close()
    shown = next((p for p in players.lineup() if p.name == players.first), CheckpointPlayer(players.first, 0))
    about |= {"run": players.folder.path.resolve().name, "first": shown.name, "players": [vars(shown)]}
    return {"about": about | {"seed": seed, "one_game": True}, "turns": [turn.to_json() for turn in turns]}


class Thinning:
    """Keeps only as many moments as a page can hold: every second, fourth, eighth, … of a longer game."""

    def __init__(self, drawn: int = MOST_DRAWN, pictures: int = MOST_PICTURES) -> None:
        self.turns: list[GameTurn] = []
        self._stride, self._drawn, self._pictures = 1, drawn, pictures

    def wants(self, step: int) -> bool:
        """Whether this moment should be drawn."""
        return step % self._stride == 0

    def add(self, turn: GameTurn) -> None:
        """Add a moment; the last one of a game is always kept."""
        if turn.over or self.wants(turn.step):
            self.turns.append(turn)
        pictures = any(isinstance(shape, Picture) for shape in turn.scene)
        if len(self.turns) > (self._pictures if pictures else self._drawn) and not turn.over:
            self.turns, self._stride = self.turns[::2], 2 * self._stride


def collect_turns(game: Callable[[Thinning], Iterator[GameTurn]], seconds: float) -> list[GameTurn]:
    """The moments of a game that are kept. A game that takes too long to play is cut off: a report must not take
    long."""
    thinning, deadline = Thinning(), time.monotonic() + seconds
    for turn in game(thinning):
        thinning.add(turn)
        if time.monotonic() > deadline:
            break
    return thinning.turns


def embed_game(game: dict[str, Any]) -> str:
    """The player and its game, as HTML."""
    text = json.dumps(game, separators=(",", ":"), allow_nan=False)
    data = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    # Base64 holds nothing that could end the script's tag.
    return f'{read_web_file("player.html")}<script type="text/plain" id="recorded-game">{data}</script>'
