"""Numbers, bars and axes for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashdqn.show.bars import draw_sparkline, draw_text_bar, split_into_slices
from flashdqn.show.chart_axis import Scale, choose_axis_top, choose_ticks, format_tick
from flashdqn.show.charts import Layer, Panel, Span, draw_line_chart, draw_stacked_bar
from flashdqn.show.numbers import format_bytes, format_count, format_duration, format_percent, format_rate
from flashdqn.show.page import escape, make_page

NAN = math.nan


def test_numbers_have_few_digits_and_a_unit() -> None:
    assert [format_rate(x) for x in (0.0, 0.04171, 8.333, 99.4, 1234.5, NAN)] == [
        "0",
        "0.0417",
        "8.33",
        "99.4",
        "1,234",
        "–",
    ]
    assert [format_percent(x) for x in (0.0, 0.001, 0.374, 1.0, NAN)] == ["0%", "<1%", "37%", "100%", "–"]
    assert [format_duration(x) for x in (0.25, 61.44, 185.0, 7443.0, NAN)] == [
        "0.25 s", "61.4 s", "3 min 05 s", "2 h 04 min", "–",
    ]  # fmt: skip
    assert [format_bytes(x) for x in (512, 312 * 2**20, 2 * 10**9, NAN)] == [
        "0.5 KiB",
        "312 MiB",
        "1.86 GiB",
        "–",
    ]
    assert [format_count(x) for x in (12800, NAN)] == ["12,800", "–"]


def test_bars_are_as_long_as_their_share() -> None:
    assert draw_text_bar(0.5, 10) == "█████"
    assert draw_text_bar(1.0, 10) == draw_text_bar(7.0, 10) == "█" * 10
    assert draw_text_bar(0.0001, 10) == "▏"
    assert draw_text_bar(0.0, 10) == draw_text_bar(NAN, 10) == ""


def test_sparklines_begin_at_zero_and_leave_gaps() -> None:
    assert draw_sparkline([0, 4, 8, NAN, 8], 10) == "▁▄█ █"
    assert draw_sparkline([0, 0, 8, 8], 2) == "▁█"
    assert draw_sparkline([], 10) == ""
    assert draw_sparkline([0, 0], 10) == "▁▁"


@given(st.integers(0, 200), st.integers(1, 50))
def test_pieces_cover_everything_once(length: int, most: int) -> None:
    row = list(range(length))
    cut = [row[piece] for piece in split_into_slices(length, most)]
    assert [number for part in cut for number in part] == row
    assert all(cut)
    assert len(cut) <= most


@given(st.floats(1e-6, 1e12), st.integers(3, 8))
def test_ticks_are_few_and_a_ceiling_is_above(largest: float, most: int) -> None:
    marks = choose_ticks(0.0, largest, most)
    assert 1 <= len(marks) <= most
    assert marks[0] == 0
    assert marks[-1] <= largest * (1 + 1e-6)
    assert largest <= choose_axis_top([0.0, largest, NAN]) * (1 + 1e-6)
    assert choose_axis_top([largest]) <= 2.5 * largest


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (NAN, NAN), (2.0, 2.0), (0.0, math.inf)])
def test_ticks_of_nothing(low: float, high: float) -> None:
    assert len(choose_ticks(low, high)) == 1


def test_ticks_in_short() -> None:
    assert [format_tick(x) for x in (0.0, 0.5, 20.0, 1500.0, 2e6, 3e9)] == [
        "0",
        "0.5",
        "20",
        "1.5k",
        "2M",
        "3G",
    ]
    assert choose_axis_top([NAN]) == choose_axis_top([]) == 1.0
    assert Scale(2.0, 2.0, 10.0, 20.0).at(2.0) == 10.0


def test_a_line_breaks_where_nothing_is_known() -> None:
    spans = [Span(k, k + 1.0) for k in range(6)]
    chart = draw_line_chart(
        "Speed & more", spans, [Panel("a/s", [1, 2, NAN, 3, NAN, 4], "#123456", format_rate)]
    )
    assert chart.count("<circle") == 2
    path = chart.partition('class="course"')[2].partition("/>")[0]
    assert path.count("M") == path.count("L") == 1
    assert 'aria-label="Speed &amp; more"' in chart
    assert "<title>2.0 – 3.0 s\na/s: –</title>" in chart


def test_a_bar_is_a_whole() -> None:
    drawn = draw_stacked_bar("All", [Layer("<a>", [1.0], "#111"), Layer("b", [3.0], "#222")])
    assert '<rect class="part" x="25.00%" width="75.00%"' in drawn
    assert "<title>&lt;a&gt;: 25.0%</title>" in drawn
    assert 'width="0.00%"' in draw_stacked_bar("None", [Layer("a", [0.0], "#111")])


def test_text_stays_text() -> None:
    assert escape('<b class="x">\0\udcff') == "&lt;b class=&quot;x&quot;&gt;\N{REPLACEMENT CHARACTER}?"
    assert "<title>&lt;/title&gt;</title>" in make_page("</title>", ["<p>x</p>"])
