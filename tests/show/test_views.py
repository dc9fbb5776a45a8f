"""How each task is shown: what is drawn must be what is there."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any, ClassVar, get_args

import gymnasium
import numpy as np
import pytest
import torch

from flashdqn.core.drawing.paint import paint_scene
from flashdqn.core.drawing.scene import Cells, Disc, Label, Picture, Rect, Trail, scene_to_json
from flashdqn.envs import FuelBreaksConfig, GymConfig, SfcConfig, SnakeConfig
from flashdqn.envs.fuelbreaks.view import BREAK_CODE, PALETTE
from flashdqn.envs.plain_view import enlarge_pixels, planes_to_image
from flashdqn.envs.sfc import layout
from flashdqn.envs.snake.config import Features
from flashdqn.envs.snake.view import CELL
from flashdqn.envs.stage import GameStage, open_stage

SMALL_FIRE = FuelBreaksConfig(size=8, landscapes=2, held_out=1, budget=4, fires=2)


def act(stage: GameStage, count: int, seed: int = 0) -> None:
    """Some legal moves at random, stopping before a new game begins."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        mask = stage.env.mask
        legal = np.arange(stage.env.num_actions) if mask is None else np.flatnonzero(mask[0].numpy())
        step = stage.env.step(torch.tensor([int(draw.choice(legal))]))
        if bool(step.terminated) or bool(step.truncated):
            break


CONFIGS = [
    *(SnakeConfig(size=6, features=features) for features in get_args(Features)),
    SnakeConfig(size=6, actions="absolute"),
    SfcConfig(),
    SfcConfig(min_dcs=12, max_dcs=12, topology="ring"),
    SMALL_FIRE,
    GymConfig("CartPole-v1"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_task_can_be_looked_at(config: Any) -> None:
    stage = open_stage(config)
    try:
        stage.env.reset(3)
        act(stage, 5)
        view = stage.view
        assert stage.note == ""
        assert len(view.actions) == stage.env.num_actions == len(set(view.actions))
        assert view.title
        scene = (*view.ground, *view.scene())
        assert json.dumps(scene_to_json(scene))
        image = np.asarray(paint_scene(scene, view.size, 160))
        assert image.std() > 5  # something is to be seen
        assert view.text().plain.strip()
        assert all(isinstance(word, str) for fact in view.facts() for word in fact)
        outcomes = dict.fromkeys(stage.env.outcome_names, 0.5)
        assert view.ending(outcomes, True)
        assert view.ending(outcomes, False)
    finally:
        stage.close()


def test_snake_is_drawn_where_it_lies() -> None:
    stage = open_stage(SnakeConfig(size=6))
    stage.env.reset(1)
    for _ in range(30):
        act(stage, 1)
        board = stage.env.board(0)  # type: ignore[attr-defined]
        scene = stage.view.scene()
        (trail,) = (shape for shape in scene if isinstance(shape, Trail))
        places = zip(trail.points[1::2], trail.points[::2], strict=True)
        assert [(int(y / CELL), int(x / CELL)) for y, x in places] == board.body
        food = scene[0]
        assert isinstance(food, Disc)
        assert (int(food.y / CELL), int(food.x / CELL)) == board.food
        lines = stage.view.text().plain.splitlines()
        assert len(lines) == 8
        row, column = board.body[0]
        assert lines[row + 1][1 + 2 * column : 3 + 2 * column] == "@@"
        assert "".join(lines).count("@") == 2
        assert "".join(lines).count("●") == 1


def test_the_network_of_chains_has_its_numbers() -> None:
    stage = open_stage(SfcConfig(min_dcs=5, max_dcs=5))
    stage.env.reset(2)
    act(stage, 60)
    env: Any = stage.env
    scene = stage.view.scene()
    words = [shape.text for shape in scene if isinstance(shape, Label)]
    assert [f"DC {d}" in words for d in range(6)] == [True] * 5 + [False]
    assert words.count("in turn") == 1
    for chain, row in zip(env.tables.chains, env.net.tally[0].tolist(), strict=True):
        assert chain.name in words
        assert f"{row[layout.SATISFIED]} of {row[layout.ASKED]}" in words
    facts = dict(stage.view.facts())
    assert int(facts["satisfied"]) == int(env.net.tally[0, :, layout.SATISFIED].sum())
    assert int(facts["pending"]) == int(env.net.state[0, layout.LEFT])
    wide, high = stage.view.size
    for shape in scene:
        if isinstance(shape, Rect):
            assert -1 <= shape.x <= shape.x + shape.width <= wide + 1
            assert -1 <= shape.y <= shape.y + shape.height <= high + 1
    assert "DC 0" in stage.view.text().plain


def test_a_given_topology_is_drawn_as_a_map(tmp_path: Path) -> None:
    tables = {
        "dc": [
            {"name": name, "x_km": x, "y_km": y, "cpu": 50, "ram": 64, "storage": 512}
            for name, x, y in (("West", 0, 0), ("North", 50, 90), ("East", 100, 0))
        ],
        "link": [
            {"between": ["West", "North"], "mbps": 100},
            {"between": ["North", "East"], "mbps": 100},
        ],
    }
    path = tmp_path / "tables.json"
    path.write_text(json.dumps(tables))
    stage = open_stage(SfcConfig(tables=str(path)))
    stage.env.reset(0)
    where = {shape.text: (shape.x, shape.y) for shape in stage.view.scene() if isinstance(shape, Label)}
    assert where["West"][0] < where["North"][0] < where["East"][0]
    assert where["North"][1] < where["West"][1] == where["East"][1]


def test_breaks_and_values_lie_on_the_same_cells() -> None:
    stage = open_stage(SMALL_FIRE)
    stage.env.reset(5)
    view, heat = stage.view, stage.view.heat
    assert heat is not None
    assert (heat.columns, heat.count) == (8, 64)
    assert len(PALETTE) == BREAK_CODE + 1 <= 62
    chosen = np.flatnonzero(stage.env.mask[0].numpy())[[3, 7]]  # type: ignore[index]
    for cell in chosen:
        stage.env.step(torch.tensor([int(cell)]))
    cells = view.scene()[0]
    assert isinstance(cells, Cells)
    found = np.flatnonzero(np.array(list(cells.codes)) == "N")  # the break's code
    assert found.tolist() == sorted(chosen.tolist())
    assert view.actions[chosen[0]] == f"cell {chosen[0] // 8}, {chosen[0] % 8}"
    assert cells.side == heat.side
    assert dict(view.facts())["breaks left"] == "2"


def test_gymnasium_draws_itself() -> None:
    stage = open_stage(GymConfig("CartPole-v1"))
    stage.env.reset(0)
    (first,) = stage.view.scene()
    assert isinstance(first, Picture)
    assert first.data[:4] == b"\x89PNG"
    act(stage, 10)
    (later,) = stage.view.scene()
    assert isinstance(later, Picture)
    assert later.data != first.data
    assert stage.view.actions == ("push left", "push right")
    assert dict(stage.view.facts()) == {"score": "10"}
    stage.close()


class Silent(gymnasium.Env[Any, Any]):
    """Draws nothing, and takes no render mode."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        return np.array([0.5, -0.25, 0.0], dtype=np.float32), {}

    def step(self, action: Any) -> Any:
        return np.array([0.1, 0.2, 0.3], dtype=np.float32), 1.0, False, False, {}


def test_what_cannot_draw_itself_is_shown_as_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("silent_envs")
    module.make = Silent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "silent_envs", module)
    stage = open_stage(GymConfig("silent_envs:make"))
    assert "what the agent sees is shown instead" in stage.note
    stage.env.reset(0)
    words = [shape.text for shape in stage.view.scene() if isinstance(shape, Label)]
    assert words == ["observation 0", "0.500", "observation 1", "-0.250", "observation 2", "0.000"]
    stage.env.step(torch.tensor([0]))
    assert "0.300" in stage.view.text().plain
    assert stage.view.actions == ("action 0", "action 1")


class Blank(Silent):
    """Draws pictures without pixels."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.zeros((0, 0, 3), dtype=np.uint8)


def test_an_empty_picture_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("blank_envs")
    module.make = Blank  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "blank_envs", module)
    assert "draws uint8 [0, 0, 3]: what the agent sees" in open_stage(GymConfig("blank_envs:make")).note


def test_minatar_without_its_painter_is_shown_as_planes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minatar")
    stage = open_stage(GymConfig("MinAtar/Breakout-v1"))
    if not stage.note:
        pytest.skip("seaborn is installed here: MinAtar draws itself")
    assert "needs the package seaborn" in stage.note
    stage.env.reset(0)
    planes = [shape for shape in stage.view.scene() if isinstance(shape, Cells)]
    assert [len(plane.codes) for plane in planes] == [100] * 4
    assert sum(code != "0" for plane in planes for code in plane.codes) > 10
    assert len(set(stage.view.actions)) == stage.env.num_actions


def test_atari_is_shown_by_its_newest_frame() -> None:
    pytest.importorskip("ale_py")
    stage = open_stage(GymConfig("ALE/Pong-v5", stack=4))
    stage.env.reset(0)
    act(stage, 20)
    (picture,) = stage.view.scene()
    assert isinstance(picture, Picture)
    assert np.asarray(paint_scene((picture,), stage.view.size, 84)).std() > 5
    assert stage.view.actions[:2] == ("noop", "fire")
    assert stage.note == ""
    stage.close()


def test_planes_become_pictures() -> None:
    stack = np.zeros((4, 3, 5), dtype=np.float32)
    stack[3, 1, 2] = 255
    image = planes_to_image(stack)
    assert image.shape == (3, 5, 3)
    assert image.sum() == 3 * 255
    colors = np.stack([np.full((3, 5), k / 2, dtype=np.float32) for k in range(3)])
    assert planes_to_image(colors)[0, 0].tolist() == [0, 127, 255]
    assert enlarge_pixels(image, 10).shape == (6, 10, 3)
    assert enlarge_pixels(image, 5) is image
