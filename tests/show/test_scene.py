"""Shapes as plain data, and as pixels."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from flashdqn.core.drawing.paint import draw_half_blocks, encode_image, paint_pixels, paint_scene
from flashdqn.core.drawing.palette import DARK, LIGHT, blend_colors, color_to_rgb, resolve_color
from flashdqn.core.drawing.scene import CODES, Cells, Disc, Label, Line, Picture, Rect, Trail, scene_to_json

SIZE = (100.0, 50.0)
RED, BLUE = (255, 0, 0), (0, 0, 255)


def file_of(image: Image.Image, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def test_every_shape_is_its_name_and_its_fields() -> None:
    picture = file_of(Image.new("RGB", (2, 2)))
    scene = (
        Rect(0, 0.123456, 10.0, 5, "board"), Disc(1, 2, 3, "#ff0000"), Line((0.0, 1.5, 2), 1, "ink"),
        Trail((0, 0, 1, 1), 2, "body-near", "body-far"), Label(1, 2, "<b>", 12, "ink", "right"),
        Cells(0, 0, 5, 2, ("#000000", "#ffffff"), "0110"), Picture(0, 0, 5, 5, picture),
    )  # fmt: skip
    data = json.loads(json.dumps(scene_to_json(scene)))
    assert data[:6] == [
        ["rect", 0, 0.12, 10, 5, "board", 0],
        ["disc", 1, 2, 3, "#ff0000"],
        ["line", [0, 1.5, 2], 1, "ink"],
        ["trail", [0, 0, 1, 1], 2, "body-near", "body-far"],
        ["label", 1, 2, "<b>", 12, "ink", "right"],
        ["cells", 0, 0, 5, 2, ["#000000", "#ffffff"], "0110"],
    ]
    kind, _, text = data[6][5].partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(text) == picture
    jpeg = scene_to_json((Picture(0, 0, 5, 5, file_of(Image.new("RGB", (2, 2)), "JPEG")),))
    assert jpeg[0][5].startswith("data:image/jpeg;base64,")


def test_names_of_colors_are_the_same_by_day_and_by_night() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert all(len(resolve_color(name, palette)) == 7 for palette in (LIGHT, DARK) for name in palette)
    assert resolve_color("#123456") == "#123456"
    assert color_to_rgb("#010203") == (1, 2, 3)
    assert blend_colors(RED, BLUE, 0.0) == RED
    assert blend_colors(RED, BLUE, 1.0) == BLUE


def test_shapes_lie_where_they_are_put() -> None:
    scene = (
        Rect(0, 0, 50, 50, "#ff0000"),
        Disc(75, 25, 10, "#0000ff"),
        Line((50, 5, 100, 5), 2, "#00ff00"),
    )
    image = paint_pixels(scene, SIZE, 200)
    assert image.shape == (100, 200, 3)
    assert image.dtype == np.uint8
    assert tuple(image[50, 20]) == RED
    assert tuple(image[50, 150]) == BLUE
    assert tuple(image[10, 150]) == (0, 255, 0)
    assert tuple(image[90, 150]) == (255, 255, 255)
    assert tuple(image[50, 110]) == (255, 255, 255)  # between the box and the disc


@given(st.integers(1, 8), st.integers(1, 6), st.data())
def test_cells_have_their_colors(columns: int, rows: int, data: st.DataObject) -> None:
    palette = tuple(f"#{40 * k:02x}00ff" for k in range(6))
    codes = data.draw(st.text(CODES[:6], min_size=columns * rows, max_size=columns * rows))
    image = paint_pixels((Cells(0, 0, 1, columns, palette, codes),), (columns, rows), 8 * columns)
    for k, code in enumerate(codes):
        row, column = divmod(k, columns)
        assert tuple(image[8 * row + 4, 8 * column + 4]) == (40 * CODES.index(code), 0, 255)


def test_a_trail_pales_from_its_first_point() -> None:
    trail = Trail((10, 25, 50, 25, 90, 25), 8, "#ff0000", "#0000ff")
    image = paint_pixels((trail,), SIZE, 100)
    assert tuple(image[25, 10]) == RED
    assert tuple(image[25, 92]) == BLUE  # the line from the middle ends at 90
    assert image[25, 50, 0] < 255
    assert image[25, 50, 2] < 255
    alone = paint_pixels((Trail((50, 25), 8, "#ff0000", "#0000ff"),), SIZE, 100)
    assert tuple(alone[25, 50]) == RED


@pytest.mark.parametrize(
    ("align", "side"), [("left", slice(50, 100)), ("right", slice(0, 50)), ("center", None)]
)
def test_a_label_lies_to_its_side(align: str, side: slice | None) -> None:
    ink = paint_pixels((Label(50, 25, "mmm", 12, "#000000", align),), SIZE, 100)[:, :, 0] < 128
    assert ink.any()
    where = np.flatnonzero(ink.any(0))
    if side is None:
        assert abs(where.mean() - 50) < 2
    else:
        assert ink[:, side].sum() == ink.sum()
    assert abs(np.flatnonzero(ink.any(1)).mean() - 25) < 4


def test_a_picture_fills_its_box_and_empty_boxes_draw_nothing() -> None:
    picture = Picture(0, 0, 50, 50, file_of(Image.new("RGB", (3, 3), RED)))
    image = paint_pixels((picture, Rect(60, 0, 0, 50, "#0000ff"), Rect(60, 0, 10, -1, "#0000ff")), SIZE, 100)
    assert (image[:, :50] == RED).all()
    assert (image[:, 51:] == 255).all()
    assert paint_scene((), SIZE, 10).size == (10, 5)


def test_few_colors_make_a_png_and_many_a_jpeg() -> None:
    flat = np.zeros((400, 600, 3), dtype=np.uint8)
    flat[100:200] = RED
    small = encode_image(flat, 300)
    assert small[:4] == b"\x89PNG"
    found = Image.open(io.BytesIO(small)).convert("RGB")
    assert found.size == (300, 200)
    assert found.getpixel((150, 75)) == RED
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    assert encode_image(noise, 300)[:2] == b"\xff\xd8"


def test_half_blocks_show_two_pixels_each() -> None:
    image = Image.new("RGB", (4, 4), RED)
    image.paste(BLUE, (0, 2, 4, 4))
    text = draw_half_blocks(image, 4, 2)
    assert text.plain == "▀▀▀▀\n▀▀▀▀"
    colors = {str(span.style) for span in text.spans}
    assert colors == {"#ff0000 on #ff0000", "#0000ff on #0000ff"}
