"""Several runs beside each other."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import forge_settings
from flashdqn.cli import main as cli
from flashdqn.runs.columns import SECONDS, STEP
from flashdqn.show.chart_axis import STEPS
from flashdqn.show.charts import Span
from flashdqn.show.compare import make_comparison_page
from flashdqn.show.compare_groups import (
    average_curves,
    evaluation_curve,
    final_score,
    find_differing_settings,
    group_runs,
    name_groups,
)
from flashdqn.show.intervals import T95, mean_with_interval
from flashdqn.show.numbers import format_rate
from flashdqn.show.overlay import Curve, draw_overlay_chart
from flashdqn.show.report_files import read_run

numbers = st.floats(-1e3, 1e3)


def variant(run: Path, path: Path, **settings: Any) -> Path:
    """A copy of a run with other settings; `replay__n_step` stands for `replay.n_step`."""
    shutil.copytree(run, path)

    def change(data: dict[str, Any]) -> None:
        for name, value in settings.items():
            group, _, key = name.rpartition("__")
            (data["config"][group] if group else data["config"])[key] = value

    forge_settings(path, change)
    return path


@pytest.fixture
def runs(run_copy: Path, tmp_path: Path) -> list[Path]:
    return [
        run_copy,
        variant(run_copy, tmp_path / "second", seed=1, log__every=700),
        variant(run_copy, tmp_path / "other", replay__n_step=3),
    ]


def test_runs_of_the_same_settings_are_one_group(runs: list[Path]) -> None:
    groups = group_runs([read_run(path) for path in runs])
    assert [[run.name for run in group.runs] for group in groups] == [["copy", "second"], ["other"]]
    assert [group.name for group in groups] == ["snake, replay.n_step 1", "snake, replay.n_step 3"]
    assert find_differing_settings([group.settings for group in groups]) == ["replay.n_step"]


def test_names_of_groups_are_short_and_unlike() -> None:
    assert name_groups([{"preset": "a", "x": 1}, {"preset": "b", "x": 2}]) == ["a", "b"]
    assert name_groups([{"preset": "a", "x": 1}]) == ["a"]
    alike = [{"preset": "a", "p": 1, "q": 1, "r": 1, "s": k} for k in range(2)]
    assert name_groups([one | {"p": 2 - one["s"]} for one in alike]) == ["a, p 2, s 0", "a, p 1, s 1"]
    many = [{"preset": "a", "p": 1, "q": 1, "r": 1, "s": 1}, {"preset": "a", "p": 2, "q": 2, "r": 2, "s": 2},
            {"preset": "a", "p": 2, "q": 2, "r": 2, "s": 3}]  # fmt: skip
    assert len(set(name_groups(many))) == 3


def test_the_command_compares(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "comparison.html"
    assert cli.dispatch_command(["report", *map(str, runs), "--out", str(out)]) == 0
    assert "Comparison of 3 runs" in capsys.readouterr().out
    page = out.read_text(encoding="utf-8")
    assert "3 runs, 2 settings" in page
    cells = re.sub(r' data-name="[^"]*"', "", page)
    assert "<td>replay.n_step</td><td>1</td><td>3</td>" in cells
    assert "<th>settings</th><th>score (95%)</th>" in page
    for title in ("Evaluation, against transitions", "Evaluation, against training time", "Throughput",
                  "While exploring, against transitions"):  # fmt: skip
        assert title in page
    assert "http" not in page.replace("https", "http").split("<body>")[1].split("<script>")[0]


def test_runs_without_much_in_them_compare_too(runs: list[Path]) -> None:
    for name in ("metrics.csv", "evaluations.csv", "summary.json"):
        (runs[1] / name).unlink()
    found = [read_run(path) for path in runs]
    assert all(math.isnan(number) for number in final_score(found[1]))
    assert "3 runs" in make_comparison_page(found)
    assert "There is nothing to draw yet" in make_comparison_page([found[1], found[1]])


@given(st.lists(numbers, min_size=2, max_size=40))
def test_an_interval_is_students(scores: list[float]) -> None:
    mean, half = mean_with_interval(scores)
    assert mean == pytest.approx(float(np.mean(scores)), abs=1e-9)
    t = T95[min(len(scores) - 1, 30) - 1]
    assert half == pytest.approx(t * float(np.std(scores, ddof=1)) / math.sqrt(len(scores)), abs=1e-9)


def test_an_interval_needs_two() -> None:
    assert mean_with_interval([3.0])[0] == 3.0
    assert math.isnan(mean_with_interval([3.0])[1])
    assert all(math.isnan(number) for number in mean_with_interval([math.nan]))
    assert mean_with_interval([1.0, math.nan])[0] == 1.0


@given(st.lists(st.tuples(st.floats(0.01, 50), numbers), min_size=1, max_size=30), st.floats(-10, 900))
def test_a_curve_between_its_points_is_numpys(steps: list[tuple[float, float]], x: float) -> None:
    xs = np.cumsum([step for step, _ in steps]).tolist()
    ys = [y for _, y in steps]
    value = Curve("", "", xs, ys).at(x)
    if not xs[0] <= x <= xs[-1]:
        assert math.isnan(value)
    else:
        assert value == pytest.approx(float(np.interp(x, xs, ys)), abs=1e-6)


def test_a_curve_passes_over_what_is_no_number() -> None:
    assert Curve("", "", [0, 1, 2], [0.0, math.nan, 4.0]).at(1) == 2.0
    assert math.isnan(Curve("", "", [0, 1], [math.nan, math.nan]).at(0.5))


def test_together_is_the_mean_in_a_band_where_all_are() -> None:
    one = Curve("a", "", [0, 10], [0.0, 10.0])
    two = Curve("b", "", [5, 20], [7.0, 7.0])
    both = average_curves("both", "#fff", [one, two])
    assert (both.xs[0], both.xs[-1]) == (5, 10)
    assert (both.ys[0], both.ys[-1]) == (6.0, 8.5)
    assert (both.low[0], both.high[0]) == (5.0, 7.0)
    assert list(average_curves("alone", "#fff", [one]).xs) == [0, 10]
    assert list(average_curves("none", "#fff", []).xs) == []
    apart = average_curves("apart", "#fff", [one, Curve("c", "", [11, 12], [1.0, 1.0])])
    assert list(apart.xs) == []


def test_evaluations_know_their_time(run_copy: Path) -> None:
    run = read_run(run_copy)
    over_steps, over_time = evaluation_curve(run, STEP), evaluation_curve(run, SECONDS)
    assert list(over_steps.ys) == list(over_time.ys)
    assert list(over_time.xs) == sorted(over_time.xs)
    assert 0 < over_time.xs[-1] <= run.series.last(SECONDS) + 1e-9


def test_curves_below_zero_lie_in_the_picture() -> None:
    chart = draw_overlay_chart(
        "Score", "return", [Curve("a", "#111111", [0, 1], [-250.0, 40.0])], STEPS, format_rate
    )
    path = chart.partition('class="course"')[2].partition('d="M')[2].partition('"')[0]
    heights = [float(point.split()[1]) for point in path.split("L")]
    assert all(28 <= height <= 28 + 190 for height in heights)
    assert ">-200<" in chart


def test_single_points_are_not_read_between() -> None:
    dots = Curve("a", "#111111", [10, 20], [1.0, 3.0], dots=True)
    assert dots.over(Span(9, 11)) == 1.0
    assert dots.over(Span(0, 20)) == 2.0
    assert math.isnan(dots.over(Span(12, 18)))
    assert Curve("a", "#111111", [10, 20], [1.0, 3.0]).over(Span(12, 18)) == 2.0
    chart = draw_overlay_chart("Score", "score", [dots], STEPS, format_rate)
    assert chart.count("<td>1</td>") == chart.count("<td>3</td>") == 1
    assert chart.count("<tr>") == 3  # a head, and a row for each point
