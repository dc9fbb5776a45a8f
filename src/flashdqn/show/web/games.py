"""Games played on demand: whoever asks for some moves of a game gets them, whatever others are looking at."""

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

#: A request must be short: it ends after so many moves, or so many seconds, and the page asks for more.
MOST_TURNS = 120
MOST_SECONDS = 0.5
#: Games that are kept; one that was put away is played again from its seed when somebody asks.
KEPT = 6
#: A game that goes on for longer is cut off.
STEP_LIMIT = 20_000


class Recorded:
    """One game, as far as it was asked for: its moves as JSON, and what plays on."""

    def __init__(self, players: Players, name: str, seed: int) -> None:
        self.stage = open_stage(players.config.env)
        self._turns: Iterator[GameTurn] | None = play_turns(players.agent(name), self.stage, seed, STEP_LIMIT)
        self.moves: list[str] = []

    @property
    def over(self) -> bool:
        """Whether all of it is there."""
        return self._turns is None

    def extend(self, until: int, deadline: float) -> None:
        """Play on to a move, or to the end of the game or of the time; at least one move."""
        while self._turns is not None and len(self.moves) < until:
            turn = next(self._turns)
            self.moves.append(json.dumps(turn.to_json(), separators=(",", ":"), allow_nan=False))
            if turn.over:
                self.close()
            if time.monotonic() > deadline:
                break

    def close(self) -> None:
        """Let the environment go."""
        self._turns = None
        self.stage.close()


class Games:
    """All games that pages are looking at. One is played at a time: Numba's threads, SDL and a small machine all
    prefer it, and a request is short."""

    def __init__(self, players: Players, seed: int = 1) -> None:
        self.players, self.seed = players, seed
        self._games: OrderedDict[tuple[str, int], Recorded] = OrderedDict()
        self._lock = threading.Lock()
        self._about: dict[str, Any] | None = None

    def about(self) -> dict[str, Any]:
        """What a page must know before the first game: the run, its checkpoints, how to draw."""
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
        """JSON: some moves of a game from `start` on, and whether the last of them ends it."""
        with self._lock:
            game = self._game(name, seed)
            deadline = time.monotonic() + MOST_SECONDS
            try:
                # moves that were put away have to be played again first: that, too, in short requests
                game.extend(start + min(count, MOST_TURNS), deadline)
            except Exception:  # an environment's own; whoever asks again gets a new game
                del self._games[name, seed]
                game.close()
                raise
            found = game.moves[start : start + min(count, MOST_TURNS)]
            over = game.over and start + len(found) >= len(game.moves)
            return f'{{"from":{start},"over":{json.dumps(over)},"turns":[{",".join(found)}]}}'

    def close(self) -> None:
        """Let all go."""
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
    """A view, for the page."""
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
