"""The learner's side of workers, with workers that a test plays itself; and what both sides share."""

from __future__ import annotations

import pickle
import socket
from typing import Any

import pytest
import torch

from flashdqn import Config
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.core.contract import VecEnv
from flashdqn.envs import build_env
from flashdqn.learn.learner import build_learner
from flashdqn.replay.pieces import Array, EnvStream, Piece
from flashdqn.training.workers.board import TURN, SharedBoard
from flashdqn.training.workers.channel import LENGTH, Channel
from flashdqn.training.workers.feed import Feed
from flashdqn.training.workers.games import CollectRecord, RemoteGames, build_games
from flashdqn.training.workers.player import Notes
from flashdqn.training.workers.spec import MOST_WAITING, plan_window
from flashdqn.training.workers.transport import Loss

CPU = torch.device("cpu")


class ScriptedWorkers:
    """A transport whose workers are environments of this process, stepped when a test asks for it."""

    def __init__(self, config: Config) -> None:
        assert config.env.collectors is not None
        self.version, self.seed, self.eps = -1, -1, None
        self.acknowledged: list[EnvStream] = []
        self.arrived: list[Piece | Loss] = []
        self.closed = False
        self.envs: list[VecEnv] = [build_env(config.env.collectors.one, 1, CPU) for _ in range(config.envs)]
        self.notes = [Notes(env, EnvStream(i, 0)) for i, env in enumerate(self.envs)]
        for i, (env, notes) in enumerate(zip(self.envs, self.notes, strict=True)):
            notes.add_start(env.reset(i))

    def play(self, player: int, steps: int) -> None:
        """Take steps with the present weights, and send them."""
        env, notes = self.envs[player], self.notes[player]
        for _ in range(steps):
            action = torch.zeros(1, dtype=torch.int64)
            if notes.add_step(action, env.step(action), self.version):
                notes.add_start(env.step(action).obs)
        self.arrived.append(notes.writer.take())

    def start(self, seed: int) -> None:
        self.seed = seed

    def publish(self, version: int) -> None:
        self.version = version

    def set_eps(self, eps: Array) -> None:
        self.eps = eps.tolist()

    def receive(self, seconds: float) -> list[Piece | Loss]:
        arrived, self.arrived = self.arrived, []
        return arrived

    def acknowledge(self, stream: EnvStream) -> None:
        self.acknowledged.append(stream)

    def close(self) -> None:
        self.closed = True


def make_feed(**changes: Any) -> tuple[Feed, ScriptedWorkers, RemoteGames]:
    settings = {"env.collect": "async", "env.workers": 2, "envs": 3, "train_ratio": 1.0, "env.max_lag": 100}
    named = {key.replace("__", "."): value for key, value in changes.items()}
    config = apply_settings(base_config("gym:CartPole-v1"), settings | {"network.hidden": [8]} | named)
    games = build_games(config, CPU)
    assert isinstance(games, RemoteGames)
    workers = ScriptedWorkers(config)
    feed = Feed(config, games, build_learner(config, games, CPU), workers)
    feed.start(5)
    return feed, workers, games


def test_rows_come_as_pieces_do_and_the_lag_is_counted() -> None:
    feed, workers, games = make_feed()
    eps = torch.tensor([0.5, 0.25, 0.125])
    assert workers.version == 0
    for player in range(3):
        workers.play(player, 2)
    feed.learner.updates = 7
    rows = []
    while (row := feed.next_row(eps)) is not None:
        rows.append(row[1])
    assert workers.eps == eps.tolist()
    assert workers.version == 7
    assert [len(row.versions) for row in rows] == [0, 3, 3]  # the first are resets
    assert feed.read_lag() == (7.0, 7.0)
    assert games.record.admitted == 6
    assert games.record.lag == 42
    assert feed.describe()["mean_lag"] == 7.0
    games.close()
    assert workers.closed


def test_workers_wait_while_too_much_is_waiting() -> None:
    feed, workers, _ = make_feed(env__max_lag=24)
    assert feed.window == 4  # cells for each lane: a row earns 3 gradient steps
    for _ in range(3):
        workers.play(0, 4)
    assert feed.next_row(torch.ones(3)) is not None
    assert workers.acknowledged == []
    for _ in range(2):
        assert feed.next_row(torch.ones(3)) is not None
    assert feed.lanes.waiting < 3 * 4
    assert workers.acknowledged == [EnvStream(0, 0)] * 3


def test_too_old_is_thrown_away() -> None:
    feed, workers, games = make_feed(env__max_lag=10)
    for player in range(3):
        workers.play(player, 3)
    feed.learner.updates = 11
    assert feed.next_row(torch.ones(3)) is None
    assert games.record.discarded == 9
    for player in range(3):
        workers.play(player, 1)
    found = [row[1] for row in iter(lambda: feed.next_row(torch.ones(3)), None)]
    assert [len(row.versions) for row in found] == [0, 3]  # first the observation before the step
    assert games.record.most_lag == 0


def test_a_lost_worker_is_named_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    feed, workers, games = make_feed()
    workers.play(0, 3)
    workers.play(1, 3)
    workers.arrived.append(Loss(0, (EnvStream(0, 0), EnvStream(1, 0)), "it fell asleep"))
    assert feed.next_row(torch.ones(3)) is None
    assert games.record.discarded == 6
    assert games.record.replaced == {0: 1}
    said = (
        "Worker 0 was replaced (environment 0, environment 1): it fell asleep. Its half episode is discarded"
    )
    assert said in [record.getMessage() for record in caplog.records]


def test_it_says_that_it_is_not_reproducible(caplog: pytest.LogCaptureFixture) -> None:
    make_feed()
    assert "the same seed does not give the same training" in caplog.text


def test_totals_go_on_after_a_resume() -> None:
    record = CollectRecord(4, 2, 100, 300, 9, 5, 3, 4, {1: 2, 3: 1})
    other = CollectRecord(4)
    other.load(record.to_tensor())
    assert other == record
    assert other.to_json(50)["replaced"] == {"worker 1": 2, "worker 3": 1}


def test_the_window_leaves_half_of_the_lag_to_the_way() -> None:
    assert plan_window(10_000, 0.25, 8) == MOST_WAITING
    assert plan_window(64, 1.0, 8) == 4
    assert plan_window(1, 1.0, 8) == 2
    assert plan_window(1, 0.0, 8) == MOST_WAITING


def test_weights_pass_through_the_board_whole_or_not_at_all() -> None:
    weights = [torch.randn(3, 5), torch.arange(4), torch.empty(0), torch.randn(())]
    ours = SharedBoard(weights, 2)
    theirs = SharedBoard(weights, 2, ours.handle)
    staging = [torch.empty_like(tensor) for tensor in weights]
    ours.publish(weights, 12)
    assert theirs.copy_into(staging, known=-1) == 12
    assert all(torch.equal(a, b) for a, b in zip(staging, weights, strict=True))
    assert theirs.copy_into(staging, known=12) is None
    ours.head[TURN] += 1  # in the middle of writing
    assert theirs.copy_into(staging, known=-1) is None
    ours.eps[:] = [0.5, 0.25]
    theirs.pulse[1] = 3.5
    assert theirs.eps.tolist() == [0.5, 0.25]
    assert ours.pulse.tolist() == [0.0, 3.5]
    with pytest.raises(ValueError, match="the shared memory has"):
        SharedBoard([torch.zeros(1000)], 2, ours.handle)
    ours.close()


def test_half_a_message_is_not_waited_for() -> None:
    one, other = socket.socketpair()
    channel = Channel(one)
    data = pickle.dumps("a whole message")
    other.sendall(LENGTH.pack(len(data)) + data[:5])
    assert channel.receive() == []
    other.sendall(data[5:] + LENGTH.pack(len(data)))
    assert channel.receive() == ["a whole message"]
    assert not channel.ended
    other.close()
    assert channel.receive() == []
    assert channel.ended
    channel.close()
