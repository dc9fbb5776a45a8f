"""The report as JSON that any parser accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from report_examples import NASTY, REPORTS, example, nasty, unknown

from flashdqn.doctor.report.contents import JSON_VERSION, encode_report_json, write_report_json


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", REPORTS)
def test_it_is_strict_and_has_a_version(name: str, tmp_path: Path) -> None:
    report = REPORTS[name]()
    path = write_report_json(report, tmp_path / "report.json")
    data = strict(path.read_text(encoding="utf-8"))
    assert data["version"] == JSON_VERSION == 1
    assert set(data) == {"version", *report.as_dict()}


def test_it_says_what_the_report_says() -> None:
    report = example()
    data = strict(encode_report_json(report))
    assert data["ratio"] == 4.0
    assert [finding["name"] for finding in data["findings"]] == [one.name for one in report.findings]
    assert data["findings"][0]["evidence"] == list(report.findings[0].evidence)
    assert data["windows"][1]["episode_length"] is None
    assert data["windows"][0]["phases"]["data movement"] == 0.43
    assert data["lines"][0]["context"][0] == [350, "    for i in range(self.num_envs):  # one by one"]


def test_what_is_no_number_is_null() -> None:
    data = strict(encode_report_json(unknown()))
    assert data["seconds"] is None
    assert data["findings"][0]["speedup"] is None
    assert data["windows"][0]["phases"] == {"acting": None}


def test_texts_come_through_as_they_are() -> None:
    data = strict(encode_report_json(nasty()))
    assert data["script"] == NASTY
    assert data["arguments"] == [NASTY, "\udcff"]


def test_what_grows() -> None:
    (row,) = strict(encode_report_json(example()))["growth"]
    assert (row["name"], row["type"], row["sizes"][1]) == ("losses", "list", [1.0, 860])
