"""Reports in a real browser, opened as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import forge_settings
from flashdqn import Run
from flashdqn.show.compare import write_comparison


class Opened:
    """A page from the disk, and all that it says and asks for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1100, "height": 900}, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def report(browser: Any, finished_run: Run) -> Iterator[Opened]:
    path = finished_run.path / "report.html"
    opened = Opened(browser, path)
    yield opened
    opened.context.close()
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [path.as_uri()]


def test_the_report_plays_its_game(report: Opened) -> None:
    page = report.page
    page.wait_for_selector(".player[data-step='0']")
    first = page.eval_on_selector(".board", "board => board.toDataURL()")
    page.click("[data-do='forward']")
    page.wait_for_selector(".player[data-step='1']")
    assert page.eval_on_selector(".board", "board => board.toDataURL()") != first
    page.click("[data-do='play']")
    page.wait_for_function("() => Number(document.querySelector('.player').dataset.step) > 3")
    assert not page.is_visible(".seed")
    assert not page.is_visible(".checkpoint")
    page.eval_on_selector(
        ".place",
        "place => { place.value = place.max; place.dispatchEvent(new Event('input', { bubbles: true })); }",
    )
    page.wait_for_selector(".state.over")


def test_charts_have_values_under_the_pointer(report: Opened) -> None:
    page = report.page
    hit = page.locator("figure").first.locator(".hit").nth(30)
    hit.scroll_into_view_if_needed()
    hit.hover()
    page.wait_for_selector(".tip:not([hidden])")
    assert "transitions" in str(page.text_content(".tip"))
    page.mouse.move(2, 2)
    page.wait_for_selector(".tip", state="hidden")


def test_the_page_scrolls_by_its_keys(report: Opened) -> None:
    """The game's keys are the game's only where it has the focus."""
    page = report.page
    page.wait_for_selector(".player[data-step='0']")
    page.click("h1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.wait_for_function("() => scrollY > 0")
    assert page.get_attribute(".player", "data-step") == "0"
    page.focus(".board")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".player[data-step='1']")


def test_the_report_fits_a_phone(browser: Any, finished_run: Run) -> None:
    opened = Opened(browser, finished_run.path / "report.html", color_scheme="dark")
    opened.page.set_viewport_size({"width": 360, "height": 740})
    opened.page.wait_for_selector(".player[data-step]")
    assert opened.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    opened.context.close()


def test_without_javascript_the_report_can_be_read(browser: Any, finished_run: Run) -> None:
    opened = Opened(browser, finished_run.path / "report.html", java_script_enabled=False)
    text = opened.page.locator("body").inner_text()
    assert "Where the time went" in text
    assert opened.page.locator("svg .course").count() > 4
    opened.context.close()


def test_a_comparison_opens_as_a_file(browser: Any, finished_run: Run, tmp_path: Path) -> None:
    path = write_comparison([finished_run.path, finished_run.path], tmp_path / "comparison.html")
    opened = Opened(browser, path)
    assert opened.page.locator("figure").count() >= 4
    assert opened.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert opened.complaints == []
    opened.context.close()


def test_no_score_is_hidden_on_a_phone(
    browser: Any, run_copy: Path, finished_run: Run, tmp_path: Path
) -> None:
    """At 400 pixels every cell of the comparison's tables lies on the screen; at 1280 they are tables."""
    forge_settings(run_copy, lambda record: record["config"]["learn"].update(lr=0.123))
    path = write_comparison([finished_run.path, run_copy], tmp_path / "comparison.html")
    opened = Opened(browser, path)
    page = opened.page
    for width, shown in ((400, "none"), (1280, "table-row")):
        page.set_viewport_size({"width": width, "height": 800})
        heads = page.eval_on_selector_all(
            ".stacked .head", "all => all.map(x => getComputedStyle(x).display)"
        )
        assert heads == [shown] * 3
        beyond = page.eval_on_selector_all(
            ".stacked td", "all => all.filter(x => x.getBoundingClientRect().right > innerWidth).length"
        )
        assert beyond == 0
    assert page.locator(".stacked td[data-name='score (95%)']").count() == 2
    assert opened.complaints == []
    opened.context.close()


def test_wide_tables_keep_their_first_column(report: Opened) -> None:
    page = report.page
    page.set_viewport_size({"width": 400, "height": 800})
    table = page.locator("table:has(th:text-is('mean_score'))")
    table.evaluate("table => { table.scrollLeft = 10000; }")
    assert table.evaluate("table => table.scrollLeft") > 0
    places = table.evaluate(
        "table => [table, table.querySelector('td')].map(one => Math.round(one.getBoundingClientRect().left))"
    )
    assert places[0] == places[1]
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
