"""Games move by move: the same as an evaluation would play, whatever shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import flashdqn
from conftest import tiny_config
from flashdqn import Run
from flashdqn.agent.agent import Agent
from flashdqn.core.drawing.scene import Picture
from flashdqn.core.errors import CheckpointError
from flashdqn.envs.stage import open_stage
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.runs import checkpoint
from flashdqn.runs.best import find_best_checkpoint
from flashdqn.show import recording
from flashdqn.show.film import MOST_FRAMES, save_film, save_picture, save_strip, thin_turns
from flashdqn.show.play import GameTurn, play_turns
from flashdqn.show.players import UNTRAINED, Players
from flashdqn.show.recording import Thinning, collect_turns, record


def a_turn(step: int, over: bool = False, picture: bool = False) -> GameTurn:
    scene = (Picture(0, 0, 1, 1, b""),) if picture else ()
    return GameTurn(step, scene, (), None, None if over else 0, 0.0, 0.0, (), "ended" if over else "")


def naive_game(agent: Agent, seed: int) -> tuple[list[int], list[float]]:
    """The same game by the agent's own `act`, one observation after the other."""
    env = flashdqn.make_env("snake", 1, **vars(agent.config.env))
    obs, actions, rewards = env.reset(seed), [], []
    while True:
        actions.append(int(agent.act(obs[0].numpy())))
        step = env.step(torch.tensor([actions[-1]]))
        rewards.append(float(step.reward))
        if bool(step.terminated) or bool(step.truncated):
            return actions, rewards
        obs = step.obs


@pytest.mark.parametrize("seed", [0, 7, 123])
def test_a_game_is_the_one_that_the_agent_plays(finished_run: Run, seed: int) -> None:
    agent = flashdqn.load(finished_run.path, "cpu")
    turns = list(play_turns(agent, open_stage(agent.config.env), seed))
    actions, rewards = naive_game(agent, seed)
    assert [turn.action for turn in turns] == [*actions, None]
    assert [turn.reward for turn in turns[1:]] == rewards
    assert turns[-1].total == pytest.approx(math.fsum(rewards))
    assert [turn.step for turn in turns] == list(range(len(actions) + 1))
    assert [turn.over for turn in turns] == [False] * len(actions) + [True]
    assert turns[-1].ending
    for turn in turns[:-1]:
        assert max(range(3), key=lambda k: turn.q[k]) == turn.action


def test_a_masked_action_is_never_chosen() -> None:
    """The network likes the illegal best."""
    config = flashdqn.presets.base_config("sfc")
    stage = open_stage(config.env)

    def q(obs: torch.Tensor) -> torch.Tensor:
        return torch.linspace(0, 1, stage.env.num_actions)[None]

    agent: Any = SimpleNamespace(q=q)
    turns = list(play_turns(agent, stage, 1, limit=60))
    assert any(turn.mask and not turn.mask[-1] for turn in turns)
    for turn in turns[:-1]:
        assert turn.mask is not None
        assert turn.action == max(k for k, legal in enumerate(turn.mask) if legal)
        assert "01"[turn.mask[3]] == turn.to_json()["mask"][3]
    assert (turns[-1].step, turns[-1].ending) == (60, "cut off: too long")


def test_the_lineup_of_a_run(finished_run: Run) -> None:
    players = Players(finished_run.path, "cpu")
    lineup = players.lineup()
    there = checkpoint.list_checkpoints(finished_run.path / "checkpoints")
    assert [player.name for player in lineup] == [UNTRAINED, *(path.name for path in there)]
    assert [player.step for player in lineup] == [0, *(int(path.name) for path in there)]
    best = find_best_checkpoint(finished_run.path / "checkpoints")
    assert best is not None
    assert [player.name for player in lineup if player.best] == [best[0].name]
    scores = {player.name: player.score for player in lineup}
    assert scores[best[0].name] == pytest.approx(best[1])
    assert scores[UNTRAINED] is None


def test_the_untrained_player_has_the_weights_that_the_run_began_with(
    tiny_run: Callable[..., Run],
) -> None:
    run = tiny_run(steps=300, learn__starts=100_000, eval__every=0, log__checkpoint_every=0)
    players = Players(run.path, "cpu")
    (first, last) = players.lineup()
    fresh, after = (players.agent(player.name).network.state_dict() for player in (first, last))
    assert all(torch.equal(fresh[name], after[name]) for name in fresh)


def test_players_are_only_the_runs_own(run_copy: Path, finished_run: Run, tmp_path: Path) -> None:
    outside, link = tmp_path / "000000008888", run_copy / "checkpoints" / "000000009999"
    outside.mkdir()
    link.symlink_to(next(iter((finished_run.path / "checkpoints").glob("0*"))))
    with pytest.raises(CheckpointError, match=f"{link.name} is a link"):
        Players(run_copy, "cpu")
    link.unlink()
    players = Players(run_copy, "cpu")
    for name in ("000000009999", "../000000008888", str(outside), "", "..", "best.json", "-1", "9" * 30):
        with pytest.raises(CheckpointError, match="has no checkpoint"):
            players.agent(name)


def test_only_a_few_agents_are_kept(finished_run: Run) -> None:
    players = Players(finished_run.path, "cpu")
    for player in players.lineup():
        players.agent(player.name)
    assert len(players._agents) == Players.KEPT
    name = players.lineup()[-1].name
    assert players.agent(name) is players.agent(name)


@given(st.integers(1, 3000), st.integers(1, 300))
def test_thinned_games_are_short_and_end_at_the_end(length: int, most: int) -> None:
    turns = [a_turn(k) for k in range(length)]
    shown = thin_turns(turns, most)
    assert shown[-1] is turns[-1]
    assert len(shown) <= most + 1
    steps = [turn.step for turn in shown]
    assert steps == sorted(set(steps))
    assert steps[0] == 0 or length == 1


@settings(max_examples=40)
@given(st.integers(1, 5000), st.booleans())
def test_kept_moments_are_few_even_and_end_at_the_end(length: int, picture: bool) -> None:
    turns = [a_turn(k, k == length - 1, picture) for k in range(length)]
    drawn = []

    def game(thinning: Thinning) -> Iterator[GameTurn]:
        for turn in turns:
            if turn.over or thinning.wants(turn.step):
                drawn.append(turn)
            yield turn

    found = collect_turns(game, math.inf)
    most = recording.MOST_PICTURES if picture else recording.MOST_DRAWN
    assert len(found) <= most + 1
    assert found[0] is turns[0]
    assert found[-1] is turns[-1]
    assert {id(turn) for turn in found} <= {id(turn) for turn in drawn}  # nothing is shown without a picture
    assert len({b.step - a.step for a, b in pairwise(found[:-1])}) <= 1
    assert length > most or len(found) == length


def test_only_what_is_kept_is_drawn(finished_run: Run) -> None:
    agent = flashdqn.load(finished_run.path, "cpu")
    stage = open_stage(agent.config.env)
    all_of_it = list(play_turns(agent, stage, 2))
    some = list(play_turns(agent, stage, 2, draws=lambda step: step % 4 == 0))
    assert [turn.step for turn in some if turn.scene] == sorted({*range(0, len(some) - 1, 4), len(some) - 1})
    assert [(turn.action, turn.q) for turn in some] == [(turn.action, turn.q) for turn in all_of_it]


def test_a_recording_waits_for_nobody() -> None:
    endless = (a_turn(k) for k in iter(int, 1))
    assert len(collect_turns(lambda _: endless, 0.0)) == 1


def test_a_recorded_game_is_the_best_checkpoints(finished_run: Run) -> None:
    game = record(finished_run.path)
    best = find_best_checkpoint(finished_run.path / "checkpoints")
    assert best is not None
    assert [player["name"] for player in game["about"]["players"]] == [best[0].name]
    agent = flashdqn.load(finished_run.path, "cpu")
    actions, _ = naive_game(agent, game["about"]["seed"])
    assert [turn["action"] for turn in game["turns"]] == [*actions, None]


def test_films_and_pictures(finished_run: Run, tmp_path: Path) -> None:
    agent = flashdqn.load(finished_run.path, "cpu")
    stage = open_stage(agent.config.env)
    turns = list(play_turns(agent, stage, 3))
    film = tmp_path / "game.gif"
    assert save_film(stage.view, turns, film, fps=20, width=96) == len(turns) <= MOST_FRAMES
    with Image.open(film) as image:
        assert image.size == (96, 96)
        assert 1 < image.n_frames <= len(turns)  # type: ignore[attr-defined]  # equal frames become one
        assert image.info["duration"] == 50
        assert image.info["loop"] == 0
    save_picture(stage.view, turns[-1], tmp_path / "end.png", 120)
    save_picture(stage.view, turns[0], tmp_path / "start.png", 120)
    assert (tmp_path / "end.png").read_bytes() != (tmp_path / "start.png").read_bytes()
    save_strip(stage.view, turns, tmp_path / "strip.png", 3, 100)
    for name, size in (("end", (120, 120)), ("strip", (310, 100))):
        with Image.open(tmp_path / f"{name}.png") as image:
            assert image.size == size


def test_a_moment_as_json_is_short() -> None:
    turn = replace(
        a_turn(4), q=(1.23456789, -2.0), mask=(True, False), reward=0.1 + 0.2, facts=[("score", "3")]
    )
    assert turn.to_json() == {
        "step": 4, "scene": [], "q": [1.2346, -2.0], "mask": "10", "action": 0, "reward": 0.3, "total": 0.0,
        "facts": [["score", "3"]], "ending": "",
    }  # fmt: skip


@pytest.mark.parametrize("algo", ["noisy", "iqn", "rainbow"])
def test_networks_with_chance_inside_play_the_same_game_twice(algo: str, tmp_path: Path) -> None:
    config = apply_algorithm(tiny_config(out=str(tmp_path), steps=400, eval__every=0), algo)
    run = flashdqn.train(config, progress=False)
    games = []
    for _ in range(2):
        agent = Players(run.path, "cpu").agent(UNTRAINED)
        games.append(
            [(turn.action, turn.q) for turn in play_turns(agent, open_stage(agent.config.env), 3, 50)]
        )
    assert games[0] == games[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_network_on_cuda_plays_on_a_board_of_the_cpu(finished_run: Run) -> None:
    players = Players(finished_run.path, "cuda")
    assert players.agent(players.first).device.type == "cuda"
    turns = list(play_turns(players.agent(players.first), open_stage(players.config.env), 1, 500))
    assert turns[-1].over
    beside = Players(finished_run.path, "cpu")
    here = next(iter(play_turns(beside.agent(beside.first), open_stage(beside.config.env), 1)))
    assert turns[0].q == pytest.approx(here.q, rel=1e-3, abs=1e-3)


def test_weights_are_kept_whenever_the_transitions_have_doubled(tiny_run: Callable[..., Run]) -> None:
    run = tiny_run(steps=4500, log__every=500, eval__every=0, log__checkpoint_every=0)
    steps = [player.step for player in Players(run.path, "cpu").lineup()]
    assert [step // 500 for step in steps] == [0, 1, 2, 4, 8, 9]
    (resumable,) = checkpoint.list_checkpoints(run.path / "checkpoints", with_state=True)
    assert int(resumable.name) == steps[-1]  # the others are weights alone
