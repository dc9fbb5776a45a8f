"""What follows a report: cures and patches with made-up runs, the table, the page and the written patch."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from record_maker import Maker
from report_examples import example
from rich.console import Console
from trial_records import make_trial
from watching import line_of, write_script

from flashdqn.doctor import proof
from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.cures.turns import take_turns
from flashdqn.doctor.proof import ProofOptions, prove
from flashdqn.doctor.report.contents import Finding, Report, encode_report_json
from flashdqn.doctor.report.page import render_doctor_page
from flashdqn.doctor.run import Patient
from flashdqn.doctor.watch.kinds import Ending
from flashdqn.doctor.watch.trial_rows import TrialRecord

SCRIPT = """
    import torch

    for step in range(1000):
        print("step", step)  # print
        env.step(0)
    torch.set_num_threads(8)  # threads
"""

Prove = Callable[..., tuple[Report, str]]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SCRIPT, "train.py")


@pytest.fixture
def prove_script(script: Path, monkeypatch: pytest.MonkeyPatch) -> Prove:
    """Prove a report on the script, where each cure has a rate of its own."""

    def run(
        options: ProofOptions, rates: dict[str, float], names: Sequence[str], **changes: Any
    ) -> tuple[Report, str]:
        maker = Maker(script)
        lines = {"printing": line_of(script, "# print"), "too-many-threads": line_of(script, "# threads")}
        maker.train(
            {maker.stack(maker.own(line)): 0.5 for line in lines.values()}, transitions=100, updates=25
        )
        maker.site("print", lines["printing"], 1000)
        titles = {"too-many-threads": "8 threads for work that is faster with 1"}
        findings = tuple(
            Finding(name, titles.get(name, name), str(script), lines.get(name, 0), 0.5, 2.0, (), "", "")
            for name in names
        )

        def fake(_: Any, cure: Cure | None) -> TrialRecord:
            return make_trial(rates[cure.name] if cure else 1000.0)

        monkeypatch.setattr(proof, "take_turns", lambda *words: take_turns(*words, fake))
        output = io.StringIO()
        console = Console(file=output, width=100)
        report = replace(example(), findings=findings, **changes)
        proved = prove(Patient(str(script)), maker.record(), report, options, console)
        return proved, output.getvalue()

    return run


def test_cures_are_tried_and_shown_beside_the_prediction(prove_script: Prove) -> None:
    rates = {"no-print": 1900.0, "threads": 1000.0}
    report, said = prove_script(ProofOptions(cures=True, rounds=2), rates, ["printing", "too-many-threads"])
    first, second = report.trials
    assert (first.cure, first.predicted, round(first.measured, 1)) == ("no-print", 2.0, 1.9)
    assert (second.cure, round(second.measured, 1), second.is_faster) == ("threads", 1.0, False)
    assert "7 runs" in said
    assert "7/7  last: the untouched script" in said
    assert "2.00x" in said
    assert "1.90x" in said
    assert "No difference beyond chance".lower() in said
    assert json.loads(encode_report_json(report))["trials"][0]["cure"] == "no-print"
    assert "1.90x" in render_doctor_page(report)


def test_a_patch_that_holds_is_written(prove_script: Prove, script: Path) -> None:
    before = script.read_bytes()
    report, said = prove_script(ProofOptions(patches=True), {"print-rarely": 1500.0}, ["printing"])
    (trial,) = report.trials
    assert trial.kept
    patch = script.with_name("train.doctor.patch")
    assert "+    if step % 100 == 0:\n+        print" in patch.read_text(encoding="utf-8")
    assert str(patch) in said.replace("\n", "")
    assert script.read_bytes() == before
    assert "print-rarely" in render_doctor_page(report)


def test_patches_that_hold_are_run_together(prove_script: Prove, script: Path) -> None:
    rates = {"print-rarely": 1500.0, "threads": 1200.0, "together": 1800.0}
    report, said = prove_script(ProofOptions(patches=True), rates, ["printing", "too-many-threads"])
    assert {trial.cure: trial.kept for trial in report.trials} == {
        "print-rarely": True,
        "threads": True,
        "together": False,
    }
    text = script.with_name("train.doctor.patch").read_text(encoding="utf-8")
    assert "set_num_threads(1)" in text
    assert "step % 100" in text
    assert "All patches together" in said


def test_patches_that_fail_together_leave_the_best(prove_script: Prove, script: Path) -> None:
    rates = {"print-rarely": 1500.0, "threads": 1200.0, "together": 900.0}
    report, _ = prove_script(ProofOptions(patches=True), rates, ["printing", "too-many-threads"])
    assert [trial.cure for trial in report.trials if trial.kept] == ["print-rarely"]
    assert "set_num_threads(1)" not in script.with_name("train.doctor.patch").read_text(encoding="utf-8")


def test_a_patch_that_is_not_faster_is_not_written(prove_script: Prove, script: Path) -> None:
    _, said = prove_script(ProofOptions(patches=True), {"print-rarely": 1000.0}, ["printing"])
    assert "No patch was written" in said
    assert not script.with_name("train.doctor.patch").exists()


def test_nothing_to_try_is_said(prove_script: Prove) -> None:
    report, said = prove_script(ProofOptions(cures=True, patches=True), {}, ["python-env"])
    assert report.trials == ()
    assert "Nothing to try" in said
    assert "Nothing to fix by machine" in said


def test_a_script_that_fails_is_not_run_again(prove_script: Prove) -> None:
    report, said = prove_script(ProofOptions(cures=True), {}, ["printing"], ended=Ending.FAILED)
    assert (report.trials, said.strip()) == ((), "Nothing was tried: the script fails.")


def test_what_a_training_grows_into_is_tried_for_longer(prove_script: Prove) -> None:
    _, said = prove_script(ProofOptions(cures=True), {"no-print": 1900.0}, ["printing", "growing-buffer"])
    assert "runs of 60 s" in said
    _, said = prove_script(ProofOptions(cures=True), {"no-print": 1900.0}, ["printing"])
    assert "runs of 15 s" in said
