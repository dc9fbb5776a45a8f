"""The browser and Pillow draw the same pictures."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from flashdqn.core.drawing.paint import paint_scene
from flashdqn.core.drawing.palette import DARK, LIGHT
from flashdqn.core.drawing.scene import Label, scene_to_json
from flashdqn.envs import FuelBreaksConfig, GymConfig, SfcConfig, SnakeConfig
from flashdqn.envs.stage import open_stage
from flashdqn.show.web.page import read_web_file

WIDTH = 320

PAINT = """async ([scene, size, width, palette]) => {
  const canvas = document.querySelector('canvas');
  canvas.width = width; canvas.height = Math.round(width * size[1] / size[0]);
  const on = canvas.getContext('2d'), images = new Map();
  for (const shape of scene) if (shape[0] === 'picture') {
    const image = new Image(); image.src = shape[5]; await image.decode(); images.set(shape[5], image); }
  on.fillStyle = 'white'; on.fillRect(0, 0, canvas.width, canvas.height);
  on.scale(canvas.width / size[0], canvas.height / size[1]);
  paint(on, scene, name => palette[name] ?? name, images);
  return canvas.toDataURL();
}"""


@pytest.fixture(scope="module")
def canvas(browser: Any) -> Any:
    page = browser.new_page()
    page.set_content("<canvas></canvas>")
    page.add_script_tag(content=read_web_file("draw.js"))
    return page


@pytest.mark.parametrize(
    "config",
    [
        SnakeConfig(size=8),
        SfcConfig(min_dcs=5, max_dcs=5),
        FuelBreaksConfig(size=8, landscapes=2, held_out=1, budget=4, fires=2),
        GymConfig("CartPole-v1"),
    ],
    ids=lambda config: config.task,
)
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_both_draw_alike(canvas: Any, config: Any, palette: dict[str, str]) -> None:
    stage = open_stage(config)
    stage.env.reset(3)
    for _ in range(4):
        mask = stage.env.mask
        stage.env.step(torch.zeros(1, dtype=torch.int64) if mask is None else mask.to(torch.int8).argmax(1))
    view = stage.view
    # their typefaces differ: words are left out
    scene = [shape for shape in (*view.ground, *view.scene()) if not isinstance(shape, Label)]
    stage.close()
    drawn = canvas.evaluate(PAINT, [scene_to_json(scene), list(view.size), WIDTH, palette])
    theirs = Image.open(io.BytesIO(base64.b64decode(drawn.partition(",")[2]))).convert("RGB")
    ours = paint_scene(scene, view.size, WIDTH, palette)
    assert theirs.size == ours.size
    difference = np.abs(np.asarray(theirs, dtype=float) - np.asarray(ours, dtype=float)).max(2)
    assert difference.mean() < 3  # of 255
    assert (difference > 60).mean() < 0.01  # edges may lie half a pixel apart


def test_a_label_is_where_pillow_puts_it(canvas: Any) -> None:
    for align in ("left", "center", "right"):
        scene = [Label(50, 25, "mmm", 12, "#000000", align)]
        drawn = canvas.evaluate(PAINT, [scene_to_json(scene), [100, 50], WIDTH, LIGHT])
        theirs = Image.open(io.BytesIO(base64.b64decode(drawn.partition(",")[2]))).convert("L")
        ours = paint_scene(scene, (100, 50), WIDTH).convert("L")
        places = [np.argwhere(np.asarray(image) < 128).mean(0) for image in (theirs, ours)]
        assert places[0] == pytest.approx(places[1], abs=0.06 * WIDTH)
