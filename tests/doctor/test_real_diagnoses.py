"""`flashdqn doctor` for real, on three patients and on the healthy script; `benchmarks/doctor.py` sees them all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.process]

PATIENTS = Path(__file__).parent / "patients"
#: Diseases that take much of the time, and are known by looks and counts: a busy machine disturbs probes more.
DISEASES = ("list-batches", "per-row-copies", "python-env")
SECONDS = (8, 20, 60)
"""How long to watch: longer where the machine was too busy for the doctor to be sure."""
TRAINED = 5.0
"""Seconds of training that the doctor wants to have seen."""

Row = dict[str, Any]


def examine(script: Path, seconds: int, folder: Path) -> Row:
    """The doctor's report on a script."""
    path = folder / "report.json"
    command = [sys.executable, "-m", "flashdqn", "doctor", "--seconds", str(seconds), "--json", str(path)]
    done = subprocess.run([*command, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    report: Row = json.loads(path.read_text(encoding="utf-8"))
    assert report["ended"] in ("stopped", "finished")
    return report


def marked_lines(script: Path) -> list[int]:
    lines = script.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# disease")]


def seconds_of_training(report: Row) -> float:
    return sum(window["seconds"] for window in report["windows"] if window["transitions"])


@pytest.mark.parametrize("disease", DISEASES)
def test_a_disease_comes_first_and_at_its_line(disease: str, tmp_path: Path) -> None:
    script = PATIENTS / f"{disease.replace('-', '_')}.py"
    findings: list[Row] = []
    for seconds in SECONDS:
        findings = examine(script, seconds, tmp_path)["findings"]
        if findings and findings[0]["name"] == disease:
            break
    assert [finding["name"] for finding in findings[:1]] == [disease]
    assert findings[0]["file"] == str(script)
    assert findings[0]["line"] in marked_lines(script)


def test_the_healthy_script_has_none_of_them(tmp_path: Path) -> None:
    trained, names = 0.0, set[str]()
    for seconds in SECONDS:
        report = examine(PATIENTS / "healthy.py", seconds, tmp_path)
        trained, names = seconds_of_training(report), {finding["name"] for finding in report["findings"]}
        if trained >= TRAINED:
            break
    assert trained >= TRAINED  # otherwise nothing could have been found
    assert names.isdisjoint(DISEASES)
