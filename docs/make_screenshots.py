"""Make the pictures of docs/watching.md and docs/planning.md in a headless Chromium, from finished runs and plans:

python docs/make_screenshots.py --snake RUN --sfc RUN --gym RUN --fuelbreaks RUN --compare RUN RUN … --plan FOLDER

Each is made only where its run is given; FOLDER is what `flashdqn fuelbreaks plan` wrote.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from flashdqn.show.compare import write_comparison
from flashdqn.show.players import Players
from flashdqn.show.report import write_report
from flashdqn.show.web.games import Games
from flashdqn.show.web.server import open_server

IMAGES = Path(__file__).parent / "images"
MOVE = "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', { bubbles: true })); }"


@contextmanager
def serving(run: Path, seed: int) -> Iterator[str]:
    """The address of a player."""
    server = open_server(Games(Players(run, "cpu"), seed), 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def shoot(browser: Any, address: str, name: str, step: int, **options: Any) -> None:
    """A player at some step of its game."""
    size = {"width": options.pop("width", 1200), "height": options.pop("height", 800)}
    context = browser.new_context(viewport=size, **options)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".player[data-step]")
    enough = "step => { const player = document.querySelector('.player').dataset;"
    enough += " return player.loaded === 'all' || Number(player.loaded) > step; }"
    while not page.evaluate(enough, step):
        page.eval_on_selector(".place", MOVE, 10**6)  # it loads ahead of where one looks
        page.wait_for_timeout(100)
    page.eval_on_selector(".place", MOVE, step)
    page.wait_for_function(
        "step => Number(document.querySelector('.player').dataset.step) === step", arg=step
    )
    save(page, name, full=True)
    context.close()


def shoot_page(browser: Any, path: Path, name: str, **options: Any) -> None:
    """The upper part of a report."""
    context = browser.new_context(viewport={"width": 1100, "height": 1500}, **options)
    page = context.new_page()
    page.goto(path.as_uri())
    if page.locator(".player").count():
        page.wait_for_selector(".player[data-step]")
        page.eval_on_selector(".place", MOVE, page.eval_on_selector(".place", "place => place.max * 0.8"))
        page.evaluate("() => scrollTo(0, 0)")
    save(page, name)
    context.close()


def save(page: Any, name: str, full: bool = False) -> None:
    """As a PNG, as small as it gets."""
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path, full_page=full)
    with Image.open(path) as image:
        small = image.convert("RGB")
    small.save(path, "PNG", optimize=True)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("snake", "sfc", "gym", "fuelbreaks"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--plan", type=Path)
    parser.add_argument("--compare", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        players = (("snake", 831, 300, {}), ("sfc", 3, 300, {"color_scheme": "dark"}),
                   ("gym", 5, 60, {"width": 420, "height": 700}), ("fuelbreaks", 5, 8, {}))  # fmt: skip
        for name, seed, step, options in players:
            if run := getattr(given, name):
                with serving(run, seed) as address:
                    shoot(browser, address, f"watch-{name}", step, **options)
        if given.snake:
            shoot_page(browser, write_report(given.snake, Path(folder) / "report.html"), "report")
        if given.compare:
            path = write_comparison(given.compare, Path(folder) / "comparison.html")
            shoot_page(browser, path, "comparison")
        if given.plan:
            shoot_page(browser, given.plan.resolve() / "plan.html", "plan-page")
        browser.close()


if __name__ == "__main__":
    main()
