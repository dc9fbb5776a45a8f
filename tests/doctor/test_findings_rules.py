"""How certain findings are, which are reported, and in which order."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_maker import Maker

from flashdqn.doctor.evidence import estimate_speedup
from flashdqn.doctor.findings.rules import (
    CERTAIN,
    compute_certainty,
    diagnose,
    format_frequency,
    list_rules,
    rank_findings,
)
from flashdqn.doctor.report.contents import Finding

FINDING = Finding("name", "Title", "file.py", 1, 0.5, 2.0, (), "advice", "example")


@given(share=st.floats(-1.0, 2.0), factor=st.floats(1e-6, 1e9))
def test_a_prediction_is_never_below_one(share: float, factor: float) -> None:
    gain = estimate_speedup(share, factor)
    assert 1.0 <= gain <= 100.0 + 1e-9
    assert math.isfinite(gain)


@pytest.mark.parametrize(
    ("share", "factor", "gain"),
    [(0.5, math.inf, 2.0), (0.5, 2.0, 4 / 3), (0.0, 10.0, 1.0), (0.9, 0.5, 1.0), (1.0, math.inf, 100.0)],
)
def test_amdahl(share: float, factor: float, gain: float) -> None:
    assert estimate_speedup(share, factor) == pytest.approx(gain)


def sure(share: float, least: float, looks: int) -> float:
    maker = Maker(Path("none.py"), looks=looks)
    maker.train({maker.stack(maker.own(1)): 1.0})
    return compute_certainty(maker.evidence(), share, least)


def test_certainty() -> None:
    assert sure(0.05, 0.05, 1000) == pytest.approx(0.5)
    # Two standard deviations: sqrt(0.1 * 0.9 / 900) is a hundredth.
    assert sure(0.10, 0.08, 900) == pytest.approx(0.97725, abs=1e-4)
    assert sure(0.10, 0.12, 900) == pytest.approx(0.02275, abs=1e-4)
    assert sure(0.10, 0.08, 9) < CERTAIN < sure(0.10, 0.08, 9000)
    assert 0.0 <= sure(0.0, 0.05, 0) <= 1.0
    assert 0.0 <= sure(1.0, 0.05, 0) <= 1.0


def test_only_looks_at_training_count(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py", looks=1000, training_began=5.0)
    maker.train({maker.stack(maker.own(1)): 1.0}, 20)
    assert maker.evidence().looks == 750


def test_the_largest_gain_first_and_nothing_that_is_not_worth_it() -> None:
    small, large = replace(FINDING, name="small", speedup=1.2), replace(FINDING, name="large", speedup=3.0)
    none = replace(FINDING, name="not about speed", speedup=1.0, share=0.0)
    unsure, tiny = replace(FINDING, certainty=0.949), replace(FINDING, speedup=1.049)
    assert rank_findings([none, small, unsure, large, tiny]) == (large, small, none)
    assert rank_findings([]) == ()


def test_equal_gains_have_an_order() -> None:
    a, b = replace(FINDING, name="a"), replace(FINDING, name="b")
    more = replace(FINDING, name="c", share=0.6)
    assert rank_findings([b, a, more]) == rank_findings([more, a, b]) == (more, a, b)


@pytest.mark.parametrize(
    ("number", "text"), [(1234.4, "1,234"), (20.0, "20"), (0.25, "0.25"), (3.14159, "3.14")]
)
def test_numbers(number: float, text: str) -> None:
    assert format_frequency(number) == text


def test_every_finding_is_explained() -> None:
    here = Path(__file__).parents[2]
    sources = [
        path.read_text(encoding="utf-8") for path in (here / "src/flashdqn/doctor/findings").glob("*.py")
    ]
    names = {
        name
        for text in sources
        for line in re.findall(r"\bname=(.*)", text)
        for name in re.findall(r'"([\w-]+)"', line)
    }
    for text in sources:  # those that a function makes for several rules
        names |= set(re.findall(r'make_health_finding\(\s*"([\w-]+)"', text))
        names |= set(re.findall(r'report_graphs\(\s*evidence,\s*\w+,\s*"([\w-]+)"', text))
    explained = re.findall(
        r"^\| `([a-z][\w-]+)` \|", (here / "docs/doctor.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert names == set(explained)
    assert len(names) >= len(list_rules())


@pytest.mark.parametrize("windows", [0, 1, 30])
def test_no_rule_minds_that_there_is_nothing(tmp_path: Path, windows: int) -> None:
    maker = Maker(tmp_path / "none.py")
    maker.train({maker.stack(maker.own(1)): 1.0}, windows)
    assert diagnose(maker.evidence()) == ()
    if windows:
        assert not [
            finding
            for rule in list_rules()
            for finding in rule(maker.evidence())
            if finding.certainty >= CERTAIN
        ]


def test_nothing_is_said_of_a_moment(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py")
    maker.site("print", 3, 1000)
    line = maker.stack(maker.own(3))
    maker.train({line: 0.9}, 1, vector_steps=100)
    assert diagnose(maker.evidence()) == ()
    maker.train({line: 0.9}, 9, vector_steps=100)
    assert [finding.name for finding in diagnose(maker.evidence())] == ["printing"]


def test_windows_in_which_counting_was_costly_are_left_out(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py")
    first, second = maker.stack(maker.own(1)), maker.stack(maker.own(2))
    maker.train({first: 1.0}, 2)
    maker.train({second: 1.0}, 8)
    maker.raw["loads"] = [0.2, 0.2, *[0.01] * 8]
    evidence = maker.evidence()
    assert (evidence.at([(maker.script, 1)]), evidence.at([(maker.script, 2)])) == (0.0, 1.0)
    assert (evidence.seconds, evidence.watched) == (8.0, 10.0)
    maker.raw["loads"] = [0.2] * 10  # there are no others
    assert maker.evidence().seconds == 10.0
