"""The docs as a site: complete, without a broken link, and with nothing that is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import FENCE, ROOT, pages

DOCS = ROOT / "docs"
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in strict mode: a warning is an error."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return out


def links(page: Path) -> list[tuple[bool, str]]:
    """Whether it is an image, and where it leads, for every link of a page."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [(bool(mark), target) for mark, target in LINK.findall(prose)]


def in_navigation(entry: object) -> list[str]:
    """The pages that a part of mkdocs.yml's navigation names."""
    if isinstance(entry, str):
        return [entry]
    parts: Any = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in in_navigation(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    named = in_navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    there = [str(page.relative_to(DOCS)) for page in sorted(DOCS.rglob("*.md"))]
    assert sorted(named) == there


def test_the_site_builds_without_a_warning(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        built = (site / page.relative_to(DOCS)).with_suffix(".html")
        assert "</html>" in built.read_text(encoding="utf-8")
    assert not list(site.rglob("*.py")), "programs are no part of the site"


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s\"'>]+"
        r"|<link\b[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon)[^>]*\bhref=[\"']?(?:https?:)?//[^\s\"'>]+"
    )
    for page in site.rglob("*.html"):
        assert not loads.findall(page.read_text(encoding="utf-8")), page.name
    for style in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), (
            style.name
        )


def test_it_works_in_a_browser_as_plain_files(site: Path, browser: Any) -> None:
    """Without a server: styles and pictures are there, no request leaves the machine."""
    page = browser.new_page()
    asked: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.wait_for_load_state("load")
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    page.click(".md-content a[href='api.html']")
    assert page.inner_text("h1").startswith("Python API")
    page.close()
    assert not failed
    assert asked
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


@pytest.mark.parametrize("width", [400, 1280])
def test_search_needs_no_server(site: Path, browser: Any, width: int) -> None:
    """From a file: what is found leads to its page, where it is marked."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    asked: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto((site / "tasks.html").as_uri())
    if width < 1000:
        page.click(".md-header label[for='__search']")
        page.wait_for_selector("body:has(#__search:checked)")
    page.locator(".md-search__input").press_sequentially("munchausen")
    found = page.locator(".md-search-result__link[href*='algorithms.html']").first
    found.wait_for()
    found.click()
    page.wait_for_selector("h1:has-text('DQN family')")
    assert page.locator("mark:has-text('unchausen')").count() > 0
    page.close()
    assert not failed
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


def test_a_link_out_of_the_docs_leads_to_a_page_with_the_file(site: Path) -> None:
    page = (site / "own-games.html").read_text(encoding="utf-8")
    assert 'href="examples-own_game.py.html"' in page
    assert "Coins" in (site / "examples-own_game.py.html").read_text(encoding="utf-8")


def test_lists_and_commands_look_like_such(site: Path) -> None:
    """`docs/theme/hooks.py`: pages are written as code hosts read them."""
    page = (site / "algorithms.html").read_text(encoding="utf-8")
    assert re.search(r"<li>Adam instead of RMSProp", page)
    assert not re.search(r"<p>[^<]*\n- ", page)
    assert 'class="language-bash highlight"' in page


def test_pictures_lead_to_themselves(site: Path) -> None:
    page = (site / "results.html").read_text(encoding="utf-8")
    assert re.search(r'<a href="(images/[^"]+)"><img [^>]*src="\1"', page)


def test_what_is_folded_is_still_a_table(site: Path) -> None:
    """`<details markdown="1">`: on the site, as on a code host, its content is read as Markdown."""
    folded = 0
    for page in DOCS.glob("*.md"):
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        if "<details" not in text:  # the API has folded source code of its own
            continue
        assert (
            text.count("<details")
            == text.count('<details markdown="1"><summary>')
            == text.count("</details>")
        )
        built = (site / page.name).with_suffix(".html").read_text(encoding="utf-8")
        parts = re.findall(r"<details[^>]*>(.*?)</details>", built, re.S)
        assert len(parts) == text.count("<details"), page.name
        assert all(re.search(r"<table|<pre", part) for part in parts), page.name
        assert not any("|---" in part or "```" in part for part in parts), page.name
        folded += len(parts)
    assert folded > 10


def test_the_api_has_every_public_name(site: Path) -> None:
    """All of `flashdqn.__all__` but its modules; and settings come with their sentences."""
    import flashdqn

    api = (site / "api.html").read_text(encoding="utf-8")
    for name in flashdqn.__all__:
        if not isinstance(getattr(flashdqn, name), type(sys)):
            assert re.search(rf'id="flashdqn\.[\w.]*\b{name}"', api), name
    for module in (flashdqn.config, flashdqn.envs):
        for name in module.__all__:
            if name.endswith("Config") and name != "EnvConfig":
                assert re.search(rf'id="flashdqn\.[\w.]*\b{name}"', api), name
    assert "Gradient steps per collected transition" in api


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    """As the files lie, for whoever reads them on a code host."""
    missing = [
        target
        for _, target in links(page)
        if not re.match(r"https?:|mailto:|#", target)
        and not (page.parent / target.partition("#")[0]).exists()
    ]
    assert not missing


def test_every_picture_is_on_some_page() -> None:
    shown = {
        (page.parent / target).resolve() for page in pages() for is_image, target in links(page) if is_image
    }
    there = {file.resolve() for file in (DOCS / "images").iterdir()}
    assert there <= shown, sorted(file.name for file in there - shown)
