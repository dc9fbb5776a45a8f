"""Snake against its naive twin, step by step, and what a vectorized environment promises."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from snake_twin import (
    DOWN,
    LEFT,
    RIGHT,
    UP,
    Cell,
    PlainRandom,
    TwinSnake,
    component,
    manhattan,
    plain_key,
    turned,
)

from flashdqn.compute.kernels import cuda_available
from flashdqn.core.errors import CheckpointError, ConfigError, EnvError
from flashdqn.envs.check import check_env
from flashdqn.envs.snake import Snake, SnakeConfig, flood
from flashdqn.envs.snake.features import body_shades
from flashdqn.envs.snake.rules import HEAD, HEADING, LENGTH, TAIL_AT

FEATURES = ("basic", "flood", "selective", "enhanced", "grid")


# what only kernels can call, for Python


@numba.njit
def fill_runs(seeds: int, free: int) -> int:
    return flood.fill_runs(seeds, free)


@numba.njit
def component_size(i: int, place: int, size: int, bits: Any) -> int:
    return flood.component_size(i, place, size, bits)


@numba.njit
def in_component(i: int, place: int, size: int, bits: Any) -> bool:
    return flood.in_component(i, place, size, bits)


# players, who look at the twin


def action_for(twin: TwinSnake, heading: Cell) -> int:
    """The action that turns to a heading; straight where none does."""
    actions = range(twin.config.num_actions)
    return next((a for a in actions if twin.after(a) == heading), 0)


def cycle_heading(cell: Cell, size: int) -> Cell:
    """The next heading on a Hamiltonian cycle of an even board: down column 0, back through the others."""
    row, col = cell
    if col == 0:
        return DOWN if row < size - 1 else RIGHT
    if row % 2:  # odd rows, the last among them, go right
        return RIGHT if col < size - 1 else UP
    if row == 0:
        return LEFT
    return LEFT if col > 1 else UP


def player(kind: str, seed: int) -> Any:
    """A function from the twin to an action: at random, towards the food, or round the cycle."""
    dice = random.Random(seed)

    def act(twin: TwinSnake) -> int:
        anything = dice.randrange(-1, twin.config.num_actions + 1)
        if twin.over or kind == "random" or dice.random() < 0.03 * (kind == "greedy"):
            return anything
        safe = [h for q in (0, 1, -1) if twin.grown(h := turned(twin.heading, q)) is not None]
        if not safe:
            return anything
        if kind == "cycle":
            wish = cycle_heading(twin.body[0], twin.config.size)
            return action_for(twin, wish if wish in safe else safe[0])
        assert twin.food is not None
        food, head = twin.food, twin.body[0]
        roomy = max(twin.share(h) for h in safe)
        good = [h for h in safe if twin.share(h) >= roomy * 0.8]
        return action_for(twin, min(good, key=lambda h: manhattan((head[0] + h[0], head[1] + h[1]), food)))

    return act


def compare(config: SnakeConfig, seed: int, kind: str, steps: int, boards: int = 2) -> dict[str, int]:
    """Play the game and its twins side by side; returns how often each cause ended an episode."""
    env = Snake(config, boards)
    twins = [TwinSnake(config, PlainRandom(plain_key(seed, i))) for i in range(boards)]
    obs = env.reset(seed)
    for i, twin in enumerate(twins):
        assert_same(obs[i], twin.step(0).obs)
    act = player(kind, seed)
    ends = dict.fromkeys(env.outcome_names, 0)
    for _ in range(steps):
        actions = [act(twin) for twin in twins]
        step = env.step(torch.tensor(actions))
        for i, (twin, action) in enumerate(zip(twins, actions, strict=True)):
            expected = twin.step(action)
            assert_same(step.obs[i], expected.obs)
            assert step.reward[i].item() == np.float32(expected.reward)
            assert step.terminated[i].item() == expected.terminated
            assert step.truncated[i].item() == expected.truncated
            if expected.outcomes:
                assert env.outcomes[i].tolist() == list(expected.outcomes.values())
                for name, count in expected.outcomes.items():
                    ends[name] += int(count)
            board = env.board(i)
            assert (board.body, board.food) == (twin.body, twin.food)
    return ends


def assert_same(obs: torch.Tensor, expected: np.ndarray) -> None:
    assert obs.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(obs.numpy(), expected)


@st.composite
def configs(draw: st.DrawFn) -> SnakeConfig:
    size = draw(st.sampled_from([4, 5, 6, 7, 8, 10]))
    start: Any = draw(st.sampled_from(["center", "random"]))
    return SnakeConfig(
        size=size,
        actions=draw(st.sampled_from(["relative", "absolute"])),
        features=draw(st.sampled_from(["enhanced", "enhanced", *FEATURES])),
        start_length=draw(st.integers(2, size // 2 + 1)),
        start=start,
        border_distance=draw(st.integers(0, (size - 1) // 2)) if start == "random" else 0,
        max_steps=draw(st.sampled_from([0, 0, 1, 17, 60])),
        hunger=draw(st.sampled_from([0.0, 0.5, 2.0])),
        win_reward=draw(st.sampled_from([0.0, 3.7])),
        distance_reward=draw(st.sampled_from([0.0, 0.5])),
    )


slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@given(configs(), st.integers(0, 2**63), st.sampled_from(["random", "greedy"]))
@settings(slow, max_examples=60)
def test_every_step_matches_the_twin(config: SnakeConfig, seed: int, kind: str) -> None:
    compare(config, seed, kind, steps=100)


@pytest.mark.parametrize("actions", ["relative", "absolute"])
@pytest.mark.parametrize("features", ["enhanced", "grid"])
def test_full_boards_match_the_twin(actions: Any, features: Any) -> None:
    config = SnakeConfig(size=4, actions=actions, features=features, win_reward=5.0, distance_reward=0.5)
    ends = compare(config, seed=3, kind="cycle", steps=500)
    assert ends["win"] >= 4
    assert ends["score"] >= 13 * ends["win"]


@given(st.integers(0, 2**63))
@settings(slow, max_examples=3)
def test_the_widest_board_matches_the_twin(seed: int) -> None:
    compare(SnakeConfig(size=32, features="enhanced", start="random"), seed, "random", steps=40, boards=1)
    compare(SnakeConfig(size=32, start_length=17), seed, "greedy", steps=30, boards=1)


def test_every_cause_of_an_end_occurs() -> None:
    config = SnakeConfig(size=5, hunger=0.7, start="random")
    random_ends = compare(config, seed=1, kind="random", steps=800)
    greedy_ends = compare(config, seed=1, kind="greedy", steps=800)
    assert random_ends["wall"] > 0
    assert random_ends["self"] + greedy_ends["self"] > 0
    assert random_ends["timeout"] + greedy_ends["timeout"] > 0
    assert greedy_ends["entrapment"] > 0


@pytest.mark.parametrize("size", [4, 7, 10, 18, 32])
def test_shades_tell_body_from_free_and_one_step_from_another(size: int) -> None:
    free, *shades = body_shades(size)
    assert len(shades) == size * size
    assert free == 0
    assert shades[-1] == 255
    assert shades == sorted(shades)
    assert min(shades) >= 51 + 204 // size
    near = shades[:100]  # from the tail; beyond that a large board runs out of bytes
    assert size > 10 or len(set(near)) == len(near)


def test_a_long_body_is_shaded_in_the_grid() -> None:
    # Nobody wants to play until a snake has 300 cells, so it is laid by hand, row by row and back.
    cells = [(r, 17 - c if r % 2 else c) for r in range(18) for c in range(18)][:300]  # tail first
    env = Snake(SnakeConfig(size=18, features="grid", hunger=0.0), 1)
    state = env.state_dict()
    state["body"][0, :300] = torch.tensor([(r + 1) * 64 + c + 1 for r, c in cells])
    state["state"][0, [HEAD, HEADING, LENGTH, TAIL_AT]] = torch.tensor(
        [int(state["body"][0, 299]), 0, 300, 0], dtype=torch.int32
    )
    for row, col in cells[1:]:
        state["bits"][0, row + 1] |= 1 << (col + 1)
    env.load_state_dict(state)
    step = env.step(torch.tensor([0]))  # up into its own body: the snake stays, and is observed
    twin = TwinSnake(env.config, PlainRandom(0), body=cells[::-1])
    assert step.terminated.item()
    head, tail = cells[-1], cells[0]
    assert step.obs[0, 1][head].item() == 51 + int(204 * (300 / 324) ** 0.5)
    assert step.obs[0, 1][tail].item() == 51 + 204 // 18
    assert_same(step.obs[0, 1], twin.grid()[1])


# the flood-fill by itself, on mazes that no snake would make


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
@example(2**32 - 1, 2**31)
@example(2**32 - 1, 1)
@settings(slow)
def test_runs_are_filled_from_end_to_end(free: int, seeds: int) -> None:
    free, seeds = free << 1, (seeds << 1) & (free << 1)  # as on the board, where bit 0 is wall
    expected = 0
    for run in re.finditer("1+", f"{free:040b}"):
        bits = sum(1 << (39 - k) for k in range(*run.span()))
        expected |= bits if bits & seeds else 0
    assert fill_runs(seeds, free) == expected


@given(st.integers(4, 32), st.sampled_from([0.1, 0.3, 0.4, 0.5]), st.randoms(use_true_random=False))
@settings(slow, max_examples=80)
def test_components_match_a_search(size: int, walls: float, dice: random.Random) -> None:
    free = {(r, c) for r in range(size) for c in range(size) if dice.random() > walls} | {(0, 0)}
    bits = np.full((1, 2 * (size + 2)), -1)
    for row, col in free:
        bits[0, row + 1] &= ~(1 << (col + 1))
    start = dice.choice(sorted(free))
    expected = component(start, free)
    assert component_size(0, (start[0] + 1) * 64 + start[1] + 1, size, bits) == len(expected)
    for row, col in free:
        assert in_component(0, (row + 1) * 64 + col + 1, size, bits) == ((row, col) in expected)


# promises of a vectorized environment


@pytest.mark.parametrize("features", FEATURES)
def test_the_contract_is_kept(features: Any) -> None:
    report = check_env(Snake(SnakeConfig(size=6, features=features, start="random"), 8))
    assert report is not None


def rollout(env: Snake, steps: int, seed: int = 5) -> list[torch.Tensor]:
    """Everything that random play puts out."""
    generator = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(steps):
        action = torch.randint(0, env.num_actions, (64,), generator=generator)[: env.num_envs]
        step = env.step(action.to(env.device))
        out += [x.cpu().clone() for x in (*step[:4], env.outcomes)]
    return out


def same(a: list[torch.Tensor], b: list[torch.Tensor], rows: int = 64) -> bool:
    return all(torch.equal(x[:rows], y[:rows]) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("features", FEATURES)
def test_a_seed_fixes_the_games(features: Any) -> None:
    config = SnakeConfig(features=features, start="random")
    env = Snake(config, 8)
    env.reset(1)
    first = rollout(env, 60)
    env.reset(1)
    assert same(first, rollout(env, 60))
    env.reset(2)
    assert not same(first, rollout(env, 60))


def test_the_number_of_boards_changes_no_game() -> None:
    few, many = Snake(SnakeConfig(), 3), Snake(SnakeConfig(), 64)
    few.reset(9)
    many.reset(9)
    assert same(rollout(few, 80), rollout(many, 80), rows=3)


def test_boards_differ_from_each_other() -> None:
    env = Snake(SnakeConfig(), 64)
    env.reset(0)
    assert len({env.board(i).food for i in range(64)}) > 30


@pytest.mark.parametrize("features", FEATURES)
def test_a_saved_state_goes_on_bit_equal(features: Any) -> None:
    config = SnakeConfig(features=features, hunger=0.3)
    env = Snake(config, 16)
    env.reset(4)
    rollout(env, 33)
    saved = env.state_dict()
    expected = rollout(env, 50)
    other = Snake(config, 16)
    other.reset(77)
    other.load_state_dict(saved)
    assert torch.equal(other._step.obs, saved["obs"])
    assert same(expected, rollout(other, 50))


def test_a_state_of_other_settings_is_refused() -> None:
    state = Snake(SnakeConfig(size=8), 2).state_dict()
    with pytest.raises(CheckpointError, match="settings it was saved with"):
        Snake(SnakeConfig(size=9), 2).load_state_dict(state)
    del state["rng"]
    with pytest.raises(CheckpointError, match="holds"):
        Snake(SnakeConfig(size=8), 2).load_state_dict(state)


def test_outputs_are_static_and_any_integer_will_do() -> None:
    env = Snake(SnakeConfig(), 4)
    step = env.step(torch.zeros(4, dtype=torch.int64))
    for dtype in (torch.uint8, torch.int32, torch.int64):
        again = env.step(torch.ones(4, dtype=dtype))
        assert again is step
        assert again.obs.data_ptr() == step.obs.data_ptr()


@pytest.mark.parametrize(
    "action",
    [
        torch.zeros(3, dtype=torch.int64),
        torch.zeros(4),
        torch.zeros(4, dtype=torch.bool),
        torch.zeros(4, 1, dtype=torch.int64),
        torch.zeros(4, dtype=torch.int64, device="meta"),
    ],
)
def test_wrong_actions_are_refused(action: torch.Tensor) -> None:
    with pytest.raises(EnvError, match=r"integers of shape \[4\] on cpu"):
        Snake(SnakeConfig(), 4).step(action)


@pytest.mark.parametrize("actions", ["relative", "absolute"])
def test_wild_actions_go_straight(actions: Any) -> None:
    env = Snake(SnakeConfig(actions=actions), 4)
    env.reset(0)
    env.step(torch.tensor([-1, 4, 2**62, -(2**62)]))
    assert [env.board(i).body[0] for i in range(4)] == [(5, 6)] * 4


def test_a_board_can_be_read() -> None:
    env = Snake(SnakeConfig(size=4), 1)
    env.reset(0)
    rows = env.render(0).split("\n")
    assert rows[2] in ("o o @ .", "o o @ *")
    assert "".join(rows).count("*") == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"size": 3}, "4 … 32"),
        ({"size": 33}, "4 … 32"),
        ({"actions": "diagonal"}, "relative, absolute"),
        ({"features": "all"}, "basic, flood"),
        ({"start": "corner"}, "center, random"),
        ({"start_length": 1}, "does not fit"),
        ({"start_length": 7}, "does not fit a board of side 10"),
        ({"border_distance": 5, "start": "random"}, "0 to 4"),
        ({"border_distance": 2}, "add --env.start random, or leave it out"),
        ({"max_steps": -1}, "max_steps"),
        ({"hunger": -1.0}, "hunger"),
        ({"hunger": 0.001}, "hunger"),
        ({"food_reward": float("nan")}, "finite"),
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        replace(SnakeConfig(), **wrong)


def test_cuda_without_its_means_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashdqn.envs.kernel_env.cuda_available", lambda: False)
    with pytest.raises(EnvError, match="put the environment on the CPU"):
        Snake(SnakeConfig(), 4, "cuda")


# CUDA

needs_cuda = pytest.mark.skipif(not cuda_available(), reason="needs a CUDA device and numba-cuda")


@needs_cuda
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("actions", ["relative", "absolute"])
def test_cuda_plays_the_same_game_bit_by_bit(features: Any, actions: Any) -> None:
    config = SnakeConfig(size=6, features=features, actions=actions, start="random", distance_reward=0.3)
    cpu, cuda = Snake(config, 64), Snake(config, 64, "cuda")
    cpu.reset(6)
    cuda.reset(6)
    assert same(rollout(cpu, 300), rollout(cuda, 300))


@needs_cuda
@pytest.mark.parametrize("features", FEATURES)
def test_cuda_graphs_play_the_same_game(features: Any) -> None:
    config = SnakeConfig(size=6, features=features, hunger=0.5)
    cpu, cuda = Snake(config, 64), Snake(config, 64, "cuda")
    actions = torch.randint(0, 3, (20, 64))
    action = actions[0].cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cuda.step(action)
    cpu.reset(8)
    cuda.reset(8)
    for k in range(200):
        action.copy_(actions[k % 20])
        graph.replay()
        step = cpu.step(actions[k % 20])
        for ours, theirs in zip((*step[:4], cpu.outcomes), (*cuda._step[:4], cuda.outcomes), strict=True):
            assert torch.equal(ours, theirs.cpu())


@needs_cuda
def test_a_state_moves_between_devices() -> None:
    cpu, cuda = Snake(SnakeConfig(), 32), Snake(SnakeConfig(), 32, "cuda")
    cuda.reset(2)
    rollout(cuda, 25)
    cpu.load_state_dict(cuda.state_dict())
    assert same(rollout(cpu, 60), rollout(cuda, 60))
