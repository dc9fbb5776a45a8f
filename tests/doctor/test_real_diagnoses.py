"""`flashdqn doctor` for real, on three patients and on the healthy script; `benchmarks/doctor.py` sees them all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashdqn.cli import main as cli

pytestmark = [pytest.mark.slow, pytest.mark.process]

PATIENTS = Path(__file__).parent / "patients"
#: Diseases that take much of the time, and are found by looks and counts: a busy machine disturbs probes more.
DISEASES = ("list-batches", "per-row-copies", "python-env")
SECONDS = (10, 30, 90)
"""How long to watch: longer where the machine was too busy for the doctor to be sure."""
TRAINED = 3.0
"""Seconds of training in which the doctor finds these diseases, where they are."""

Row = dict[str, Any]
Examine = Callable[[Path, int], Row]


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examine:
    """`flashdqn doctor` on a script, for some seconds: its report."""

    def doctor(script: Path, seconds: int) -> Row:
        path = tmp_path / "report.json"
        words = ["doctor", "--seconds", str(seconds), "--json", str(path), str(script)]
        monkeypatch.setattr("sys.argv", ["flashdqn", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0
        report: Row = json.loads(path.read_text(encoding="utf-8"))
        assert report["ended"] in ("stopped", "finished")
        return report

    return doctor


def marked_lines(script: Path) -> list[int]:
    lines = script.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# disease")]


def seconds_of_training(report: Row) -> float:
    return sum(window["seconds"] for window in report["windows"] if window["transitions"])


@pytest.mark.parametrize("disease", DISEASES)
def test_a_disease_comes_first_and_at_its_line(disease: str, examine: Examine) -> None:
    script = PATIENTS / f"{disease.replace('-', '_')}.py"
    findings: list[Row] = []
    for seconds in SECONDS:
        findings = examine(script, seconds)["findings"]
        if findings and findings[0]["name"] == disease:
            break
    assert [finding["name"] for finding in findings[:1]] == [disease]
    assert findings[0]["file"] == str(script)
    assert findings[0]["line"] in marked_lines(script)


def test_the_healthy_script_has_none_of_them(examine: Examine) -> None:
    trained, names = 0.0, set[str]()
    for seconds in SECONDS:
        report = examine(PATIENTS / "healthy.py", seconds)
        trained, names = seconds_of_training(report), {finding["name"] for finding in report["findings"]}
        if trained >= TRAINED:
            break
    assert trained >= TRAINED  # otherwise nothing could have been found
    assert names.isdisjoint(DISEASES)
