"""The page: well nested, self-contained, and with everything from the script escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_examples import NASTY, REPORTS, empty, example, failed, healthy, nasty, windows

from flashdqn.doctor.report.page import render_doctor_page, write_doctor_page
from flashdqn.doctor.report.page_cards import highlight_as_html


class Page(HTMLParser):
    """Tags, texts and attributes; fails on tags that are not nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.titles: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)
        if self.open and self.open[-1] == "title":
            self.titles.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


@pytest.mark.parametrize("name", REPORTS)
def test_every_page_is_whole_and_alone(name: str, tmp_path: Path) -> None:
    path = write_doctor_page(REPORTS[name](), tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    found = Page(text)
    assert found.tags.count("script") == found.tags.count("style") == 1
    assert not {"link", "iframe", "object", "img", "base", "form"} & set(found.tags)
    assert not [
        name for name, _ in found.attributes if name in ("src", "href", "srcset") or name.startswith("on")
    ]
    assert not re.search(r"https?://|//cdn|@import|url\(", text)
    assert not re.search(r'"[^"<>]*\b(nan|inf)\b[^"<>]*"', text)
    assert "prefers-color-scheme: dark" in text


def test_the_page_has_every_part() -> None:
    found = Page(render_doctor_page(example()))
    for words in (
        "scripts/train_dqn.py --envs 8 --name 'two words'",
        "Watched for 60.4 s, then it was stopped: its time was up.",
        "Limited by copying data",
        "1. per-row-copies",
        "1.7x faster",
        "scripts/train_dqn.py:352, 43% of the time",
        "What to do: Copy the whole batch once",
        "1.5x faster, learning from less",
        "This is learning from less, not speed",
        "not about speed",
        "copies between host and device",
        "10 to 50,160 items",
        "The GPU's own time was not measured",
        "The doctor slowed the script by about 3%",
    ):
        assert words in found.text
    assert found.tags.count("article") == 3


def test_charts_have_names_axes_values_and_tables() -> None:
    found = Page(render_doctor_page(example()))
    labels = [value for name, value in found.attributes if name == "aria-label"]
    assert labels == ["Time by phase", "Throughput", "Time by phase", "Episodes and their length", "Memory"]
    assert found.tags.count("figure") == 4
    assert found.text.count("As a table") == 4
    for name in (
        "transitions/s",
        "updates/s",
        "episodes/s",
        "mean episode length, steps",
        "host, GiB",
        "60 s",
    ):
        assert name in found.words
    hits = [title for title in found.titles if title.startswith("34.0 – 35.0 s\n")]
    assert hits[0].splitlines()[1:] == ["transitions/s: 227", "updates/s: 910"]
    assert "data movement: 43%" in hits[1].splitlines()
    assert hits[3].splitlines()[1:] == ["host, GiB: 1.41 GiB", "device, MiB: 512 MiB"]
    assert "data movement: 42.9%" in found.titles


def test_hours_of_windows_make_a_page_of_the_same_size() -> None:
    short, long = (len(render_doctor_page(example(windows=windows(number)))) for number in (120, 4000))
    assert long < 1.3 * short
    assert "60 min" in Page(render_doctor_page(example(windows=windows(4000)))).words


def test_hot_lines_are_marked_in_their_context() -> None:
    text = render_doctor_page(example())
    marked = re.findall(r'<span class="row hot"><span class="number">(\d+)</span>', text)
    assert marked == ["352", "353", "355", "247"]
    assert text.count('<details class="line" open>') == 3


def test_nothing_found_and_nothing_seen() -> None:
    assert "No problem found" in Page(render_doctor_page(healthy())).text
    nothing = Page(render_doctor_page(empty()))
    assert "No training was seen" in nothing.text
    assert "Nothing was counted over time." in nothing.text
    assert "figure" not in nothing.tags


def test_a_failed_script_shows_its_traceback_first() -> None:
    text = Page(render_doctor_page(failed())).text
    assert text.index("It failed with Traceback (most recent call last)") < text.index("Where the time goes")
    assert text.index("Where the time goes") < text.index("per-row-copies")


def test_everything_is_escaped() -> None:
    text = render_doctor_page(nasty())
    found = Page(text)
    assert "alert(" not in text.replace("alert(&quot;", "").replace("alert(<span", "")
    assert text.count("</script>") == 1
    shown = NASTY.replace("\x1b", "\N{REPLACEMENT CHARACTER}")
    assert found.text.count(shown) > 10
    assert "\0" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "source",
    [
        "if x < 3 and y: # <b>",
        "f\"<i>{x}</i>\" + 'it\\'s'",
        '"""a\nb""" 0x1F',
        "'''never closed",
        "'",
        '"\\',
        "日本 = 1",
    ],
)
def test_code_is_colored_and_stays_the_same(source: str) -> None:
    found = Page(highlight_as_html(source))
    assert "".join(found.words) == source
    assert set(found.tags) <= {"span"}


def test_keywords_strings_numbers_and_comments_have_colors() -> None:
    assert highlight_as_html("if form == 'a': # b") == (
        '<span class="k">if</span> form == <span class="s">&#x27;a&#x27;</span>: <span class="c"># b</span>'
    )
    assert highlight_as_html("x1 = 2.5") == 'x1 = <span class="n">2.5</span>'
