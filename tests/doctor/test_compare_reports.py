"""`flashdqn doctor compare`: what changed, is it more than chance, which findings went and came."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_examples import example

from flashdqn.cli import main as cli
from flashdqn.cli.doctor_compare import read_share
from flashdqn.core.errors import ConfigError
from flashdqn.doctor.compare import compare_reports, compute_speed, describe_change, read_report
from flashdqn.doctor.report.comparison import render_comparison
from flashdqn.doctor.report.contents import Window, encode_report_json
from flashdqn.doctor.watch.kinds import Phase

Row = dict[str, Any]


def make_windows(rate: float, count: int = 40, noise: float = 0.02, seed: int = 0) -> tuple[Window, ...]:
    """Seconds of training at about this rate; the first one is start-up."""
    chance = random.Random(seed)
    windows = [Window(0.0, 1.0, 0, 0, 0, 0, 0.0, 0, 0, {Phase.START_UP: 1.0})]
    for k in range(1, count):
        done = int(rate * (1 + noise * chance.uniform(-1, 1)))
        phases = {Phase.ENVIRONMENT: 0.25, Phase.OPTIMIZER: 0.75}
        windows.append(Window(float(k), 1.0, done, done, done // 4, 0, 0.0, 0, 0, phases))
    return tuple(windows)


def make_report(rate: float, names: tuple[str, ...] = (), **changes: Any) -> Row:
    windows = make_windows(rate, seed=len(names) + int(rate))
    total = sum(window.transitions for window in windows)
    findings = tuple(replace(example().findings[0], name=name, speedup=1.5) for name in names)
    counts = {"transitions": total, "updates": total // 4}
    report = replace(example(), **counts, windows=windows, findings=findings, **changes)
    loaded: Row = json.loads(encode_report_json(report))
    return loaded


def test_a_clear_gain_is_more_than_chance() -> None:
    comparison = compare_reports(make_report(1000), make_report(2000))
    assert comparison.speed is not None
    assert comparison.speed.middle == pytest.approx(2.0, rel=0.03)
    assert comparison.speed.is_faster
    assert comparison.verdict.startswith("2.0")
    assert "more than chance" in comparison.verdict
    assert comparison.warnings == ()


def test_a_run_and_itself_do_not_differ() -> None:
    comparison = compare_reports(make_report(1000), make_report(1001))
    assert "No difference beyond chance" in comparison.verdict
    assert not comparison.is_slower_than(0.0)


@settings(deadline=None)
@given(st.floats(0.6, 0.99), st.floats(0.0, 0.5))
def test_failing_needs_both_the_limit_and_more_than_chance(factor: float, limit: float) -> None:
    comparison = compare_reports(make_report(10_000), make_report(int(10_000 * factor)))
    assert comparison.speed is not None
    fails = comparison.is_slower_than(limit)
    assert fails == (comparison.speed.high < 1.0 and comparison.speed.middle < 1.0 - limit)
    assert not (fails and factor > 1.0 - limit + 0.02)


def test_findings_that_went_and_came() -> None:
    before, after = make_report(1000, ("printing", "row-loop")), make_report(1000, ("row-loop", "logging"))
    changes = compare_reports(before, after).findings
    states = {c.name: (c.before is not None, c.after is not None) for c in changes}
    assert states == {"printing": (True, False), "logging": (False, True), "row-loop": (True, True)}
    assert [change.name for change in changes] == ["printing", "logging", "row-loop"]


def test_what_else_differs_is_said() -> None:
    before, after = make_report(1000), make_report(1000, threads=1, arguments=("--envs", "9"))
    warnings = " ".join(compare_reports(before, after | {"updates": 10}).warnings)
    assert "threads: 8 before, 1 after" in warnings
    assert "--envs 9" in warnings
    assert "updates per transition" in warnings


def test_too_little_training_says_nothing() -> None:
    short = make_report(1000)
    short["windows"] = short["windows"][:6]
    comparison = compare_reports(short, make_report(1000))
    assert comparison.speed is None
    assert not comparison.is_slower_than(0.0)
    assert "cannot be said" in comparison.verdict


def test_the_interval_by_hand() -> None:
    speed = compute_speed([0.0, 0.1, -0.1, 0.0], [1.0, 1.1, 0.9, 1.0])
    assert speed is not None
    assert speed.middle == pytest.approx(2.71828, rel=1e-4)
    # Two variances of 1/150 over 4 values each, t = 2.45 with 6 degrees of freedom.
    assert speed.high / speed.middle == pytest.approx(1.1519, rel=1e-3)


def test_changes_in_words() -> None:
    assert [describe_change(f) for f in (1.8, 1.07, 0.93)] == [
        "1.80 times as fast",
        "7.0% faster",
        "7.0% slower",
    ]


def test_the_page_escapes_and_holds_everything() -> None:
    page = render_comparison(
        compare_reports(make_report(1000, ("printing",)), make_report(500)), ("<a>.json", "b.json")
    )
    assert "&lt;a&gt;.json" in page
    assert "<a>" not in page.replace("<a>.json", "")
    assert "gone" in page
    assert "slower" in page


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(make_report(1000)), encoding="utf-8")
    after.write_text(json.dumps(make_report(800)), encoding="utf-8")
    return before, after


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["flashdqn", "doctor", "compare", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_command_and_its_exit_codes(
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, after = files
    page = tmp_path / "page.html"
    assert run(monkeypatch, before, after, "--html", page) == 0
    assert "slower, which is more than chance" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run(monkeypatch, before, after, "--fail-if-slower", "10%") == 1
    assert run(monkeypatch, before, after, "--fail-if-slower", "0.3") == 0
    assert run(monkeypatch, after, before, "--fail-if-slower", "0%") == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [("nonsense", "not JSON"), ("{}", "not a report of the doctor"), ("[]", "not a report of the doctor")],
)
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_report(path)


def test_mistakes_are_one_sentence(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, files[0]) == 2
    assert "takes two reports" in capsys.readouterr().err
    assert run(monkeypatch, *files, "--fail-if-slower", "much") == 2
    assert "such as 10%" in capsys.readouterr().err
    assert run(monkeypatch, files[0], files[0].with_name("none.json")) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "share"), [("10%", 0.1), ("0.1", 0.1), (" 7.5 % ", 0.075), ("0", 0.0)])
def test_shares(text: str, share: float) -> None:
    assert read_share(text) == pytest.approx(share)
