"""A profile as a page: complete, self-contained, and with 2x and 0.5x at equal distances."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from profile_tiny import outcome

from flashdqn.profile.advice import make_advice
from flashdqn.profile.page import SpeedScale, render_profile_page, write_profile_page
from flashdqn.profile.result import Apart, Aside, LeftOut, Profile, Spent, TimedPhase

BASELINE = outcome("baseline", (1.0, 1.0, 1.0), role="baseline", verdict="baseline")
HALF = outcome("ratio-half", (1.9, 1.8, 2.0), role="trade", learning="learns from <half> as many updates")
BOARDS = outcome("boards-1024", (1.4, 1.3, 1.5))
ACT = TimedPhase("act", 2.5, 0.25, "the network & ε-greedy")
UPDATE = TimedPhase("update", 7.5, 0.75, "gradients")
SPENT = Spent(
    seconds=2.5,
    iterations=100,
    transitions=25_600,
    updates=800,
    transitions_per_second=10_240.0,
    updates_per_second=320.0,
    ratio_asked=0.03125,
    ratio_done=0.03125,
    batch=64,
    reuse=2.0,
    phases=(ACT, UPDATE),
    fused=(),
    asides=(Aside("warm-up", 5.0, None, None, "once"), Aside("report", 0.01, 1000, 10.0, "now and then")),
    apart=(Apart("collect", (ACT,), 2.0, 2.5),),
    not_apart="",
)
PROFILE = Profile(
    preset="snake</title>",
    date="2026-11-15",
    hardware={"device": "a processor", "cores": 2, "torch": "2.13.0"},
    device="cpu",
    config={"envs": 256, "learn": {"method": "dqn", "batch_size": 64}},
    mode="native",
    mode_why="",
    threads=(1, 2),
    warm_up_seconds=5.0,
    spent=SPENT,
    outcomes=(BASELINE, HALF, BOARDS),
    left_out=(LeftOut("mode-compile", "no compiler"),),
    rounds_done=9,
    rounds_asked=9,
    turn_seconds=0.4,
    interrupted=False,
    advice=make_advice([BASELINE, HALF, BOARDS]),
)


class Reader(HTMLParser):
    """The text of a page, and whether its tags close as they opened."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name in ("src", "href") for name, _ in attrs)
        if tag not in ("meta", "br", "line", "path", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> str:
    reader = Reader()
    reader.feed(page)
    return " ".join(reader.text)


def test_everything_is_on_the_page(tmp_path: Path) -> None:
    write_profile_page(PROFILE, tmp_path / "page.html")
    text = read((tmp_path / "page.html").read_text(encoding="utf-8"))
    for words in (
        "flashdqn profile snake</title>",
        "the network & ε-greedy",
        "7.500 µs",
        "2.000 µs, and 2.500 µs as one graph",
        "learns from <half> as many updates",
        "1.90 (1.80 … 2.00)",
        "Left out: mode-compile: no compiler",
        "--boards-1024",
        "Trades learning for speed",
    ):
        assert words in text, words


def test_a_profile_without_experiments() -> None:
    text = read(render_profile_page(replace(PROFILE, outcomes=(), left_out=(), advice=make_advice([]))))
    assert "Experiments" not in text
    assert "What would make it faster" not in text


@pytest.mark.parametrize(("least", "most"), [(0.25, 4.0), (0.9, 1.1), (0.01, 40.0)])
def test_twice_is_as_far_as_half(least: float, most: float) -> None:
    scale = SpeedScale(least, most)
    right, left = scale.place(2.0) - scale.place(1.0), scale.place(1.0) - scale.place(0.5)
    assert right == pytest.approx(left)
    assert 0.0 <= scale.place(max(least, 0.001)) <= scale.place(most) <= 100.0 + 1e-9
