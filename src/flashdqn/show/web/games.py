"""Games played on demand: each request gets the moves that it asks for, whatever other pages show."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from flashdqn.core.drawing.palette import DARK, LIGHT
from flashdqn.core.drawing.scene import scene_to_json
from flashdqn.core.drawing.view import View
from flashdqn.envs.stage import GameStage, open_stage
from flashdqn.show.play import GameTurn, play_turns
from flashdqn.show.players import Players

#: A request must be short: it ends after this many moves or seconds, and the page asks for more.
MOST_TURNS = 120
MOST_SECONDS = 0.5
#: Games that are kept; a dropped game is played again from its seed when a page asks for it.
KEPT = 6
#: A game that goes on for longer is cut off.
STEP_LIMIT = 20_000


class Recorded:
    """One game, as far as it was asked for: its moves as JSON, and the iterator that plays on."""

    def __init__(self, players: Players, name: str, seed: int) -> None:
        self.stage = open_stage(players.config.env)
        self._turns: Iterator[GameTurn] | None = play_turns(players.agent(name), self.stage, seed, STEP_LIMIT)
        self.moves: list[str] = []

    @property
    def over(self) -> bool:
        """Whether the whole game is recorded."""
        return self._turns is None

    def extend(self, until: int, deadline: float) -> None:
        """Play on until this move, the end of the game or the deadline; at least one move."""
        while self._turns is not None and len(self.moves) < until:
            turn = next(self._turns)
            self.moves.append(json.dumps(turn.to_json(), separators=(",", ":"), allow_nan=False))
            if turn.over:
                self.close()
            if time.monotonic() > deadline:
                break

    def close(self) -> None:
        """Close the environment."""
        self._turns = None
        self.stage.close()


class Games:
    """All games that pages show. Only one is played at a time: this suits Numba's threads, SDL and small machines,
    and a request is short."""

    def __init__(self, players: Players, seed: int = 1) -> None:
        self.players, self.seed = players, seed
        self._games: OrderedDict[tuple[str, int], Recorded] = OrderedDict()
        self._lock = threading.Lock()
        self._about: dict[str, Any] | None = None

    def about(self) -> dict[str, Any]:
        """What a page needs before the first game: the run, its checkpoints, how to draw."""
        with self._lock:
            if self._about is None:
                stage = open_stage(self.players.config.env)
                try:
                    self._about = describe_stage(stage)
                finally:
                    stage.close()
            return self._about | {
                "run": self.players.folder.path.resolve().name,
                "first": self.players.first,
                "seed": self.seed,
                "players": [vars(player) for player in self.players.lineup()],
            }

    def moves(self, name: str, seed: int, start: int, count: int) -> str:
        """JSON: `count` moves of a game from `start` on, and whether the last of them ends it."""
        with self._lock:
            game = self._game(name, seed)
            deadline = time.monotonic() + MOST_SECONDS
            try:
                # dropped moves must be played again first, also in short requests
                game.extend(start + min(count, MOST_TURNS), deadline)
            except Exception:  # an environment's own error; the next request gets a new game
                del self._games[name, seed]
                game.close()
                raise
            found = game.moves[start : start + min(count, MOST_TURNS)]
            over = game.over and start + len(found) >= len(game.moves)
            return f'{{"from":{start},"over":{json.dumps(over)},"turns":[{",".join(found)}]}}'

    def close(self) -> None:
        """Close all games."""
        for game in self._games.values():
            game.close()
        self._games.clear()

    def _game(self, name: str, seed: int) -> Recorded:
        key = (name, seed)
        if key not in self._games:
            game = Recorded(self.players, name, seed)
            while len(self._games) >= KEPT:
                self._games.popitem(last=False)[1].close()
            self._games[key] = game
        self._games.move_to_end(key)
        return self._games[key]


def describe_stage(stage: GameStage) -> dict[str, Any]:
    """The data that the page needs to draw a game."""
    view: View = stage.view
    return {
        "title": view.title,
        "size": list(view.size),
        "actions": list(view.actions),
        "value_name": view.value_name,
        "heat": None if view.heat is None else vars(view.heat),
        "ground": scene_to_json(view.ground),
        "note": stage.note,
        "palettes": {"light": LIGHT, "dark": DARK},
    }
