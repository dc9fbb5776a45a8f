"""plan.html in a real browser, opened as a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plan_report_data import small_report

from flashdqn.planning.write.page import make_plan_page


@pytest.fixture
def page_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.html"
    path.write_text(make_plan_page(small_report()), encoding="utf-8")
    return path


@pytest.fixture(params=["light", "dark"])
def page(browser: Any, page_file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1100, "height": 900}, color_scheme=request.param)
    opened = context.new_page()
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda asked: said.append(asked.url))
    opened.goto(page_file.as_uri())
    yield opened
    context.close()
    assert [text for text in said if not text.startswith("data:image/png")] == [page_file.as_uri()]


@pytest.mark.parametrize("width", [400, 1100])
def test_nothing_hangs_over(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    beyond = page.eval_on_selector_all(
        ".stacked td, .tile, .headline",
        "all => all.filter(x => x.getBoundingClientRect().right > innerWidth).length",
    )
    assert beyond == 0


def test_curve_and_maps_tell_their_values(page: Any) -> None:
    curve = page.locator("figure:has-text('Expected loss by budget') .hit").last
    curve.scroll_into_view_if_needed()
    curve.hover()
    page.wait_for_selector(".tip:not([hidden])")
    words = str(page.text_content(".tip"))
    assert words.startswith("24 cells")
    assert "DPV: " in words
    assert "random: " in words
    marker = page.locator(".maps .hit").last
    marker.scroll_into_view_if_needed()
    marker.hover()
    page.wait_for_function("() => document.querySelector('.tip').textContent.includes('houses')")


def test_pictures_are_drawn_and_text_can_be_read(page: Any) -> None:
    assert page.locator("svg.map image").count() == 3
    assert page.eval_on_selector("h1", "head => head.textContent") == "<b>ridge</b> & $x$"
    contrast = """() => {
        const parse = text => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
        const light = color => { const [r, g, b] = color.map(x => { x /= 255;
            return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const style = getComputedStyle(document.body);
        const [a, b] = [light(parse(style.color)), light(parse(style.backgroundColor))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }"""
    assert page.evaluate(contrast) > 7


def test_it_prints_on_a4(page: Any) -> None:
    """On paper it is black on white in either scheme, and no wider than the sheet."""
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 690, "height": 980})  # 182 mm at 96 dpi
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    heads = page.eval_on_selector_all(".stacked .head", "all => all.map(x => getComputedStyle(x).display)")
    assert set(heads) == {"table-row"}, "paper has room for tables"
    beyond = page.eval_on_selector_all(
        "td", "all => all.filter(x => x.getBoundingClientRect().right > innerWidth).length"
    )
    assert beyond == 0
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
