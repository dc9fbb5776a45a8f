"""Cures in turns with the untouched script, and which patches are kept; no script runs here."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from trial_records import make_trial

from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.cures.trial_process import TrialSetup
from flashdqn.doctor.cures.turns import judge_turns, take_turns
from flashdqn.doctor.fixes.edits import Edit
from flashdqn.doctor.fixes.patch import Patch, choose_patches, select_compatible, write_patches
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.report.cure_result import CureResult
from flashdqn.doctor.run import Patient
from flashdqn.doctor.watch.kinds import Ending
from flashdqn.doctor.watch.trial_rows import TrialRecord

SETUP = TrialSetup(Patient("train.py"), 15.0, 30.0, waits_for_updates=True)
FAST = Cure("fast", "some-finding", "a setting", 2.0, (("threads", {"number": 1}),))
SLOW = Cure("slow", "some-finding", "another", 1.5, (("flush", {}),))


class Runs:
    """Answers with records in the place of real runs, and notes the order."""

    def __init__(self, **records: TrialRecord) -> None:
        self.records = records
        self.order: list[str] = []

    def __call__(self, _: TrialSetup, cure: Cure | None) -> TrialRecord:
        name = cure.name if cure else "untouched"
        self.order.append(name)
        return self.records[name]


def test_turns_alternate_and_end_untouched() -> None:
    runs = Runs(untouched=make_trial(1000.0), fast=make_trial(2000.0), slow=make_trial(1000.0))
    said: list[str] = []
    turns = take_turns(SETUP, [FAST, SLOW], 2, said.append, runs)
    assert runs.order == ["untouched", "fast", "slow", "untouched", "fast", "slow", "untouched"]
    assert len(said) == len(runs.order)
    fast, slow = judge_turns(turns, [FAST, SLOW])
    assert (fast.pairs, fast.measured) == (2, pytest.approx(2.0, rel=0.02))
    assert fast.verdict.startswith("Faster; the numbers: equal bit by bit")
    assert (fast.predicted, fast.numbers) == (2.0, "equal")
    assert slow.verdict.startswith("No difference beyond chance")


def test_a_cure_that_breaks_the_script_is_not_run_again() -> None:
    broken = replace(make_trial(), ended=Ending.FAILED, error="Traceback:\n\nValueError: no\n")
    runs = Runs(untouched=make_trial(), fast=broken)
    (trial,) = judge_turns(take_turns(SETUP, [FAST], 3, lambda _: None, runs), [FAST])
    assert runs.order.count("fast") == 1
    assert trial.verdict == "Not measured: the script failed with it: ValueError: no."
    assert math.isnan(trial.measured)


def test_a_cure_that_finds_nothing_to_change_is_no_result() -> None:
    runs = Runs(untouched=make_trial(), fast=make_trial(3000.0, applied=()))
    (trial,) = judge_turns(take_turns(SETUP, [FAST], 2, lambda _: None, runs), [FAST])
    assert trial.pairs == 0
    assert "it changed nothing" in trial.verdict


def test_an_untouched_script_that_fails_ends_it_all() -> None:
    runs = Runs(
        untouched=replace(make_trial(), ended=Ending.FAILED, error="KeyError: 'x'"), fast=make_trial()
    )
    (trial,) = judge_turns(take_turns(SETUP, [FAST], 3, lambda _: None, runs), [FAST])
    assert runs.order == ["untouched"]
    assert "the untouched script failed: KeyError: 'x'" in trial.verdict


def test_an_interrupt_keeps_what_was_measured() -> None:
    runs = Runs(untouched=make_trial(1000.0), fast=make_trial(2000.0))
    left = iter(range(4))

    def interrupted(setup: TrialSetup, cure: Cure | None) -> TrialRecord:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return runs(setup, cure)

    (trial,) = judge_turns(take_turns(SETUP, [FAST], 5, lambda _: None, interrupted), [FAST])
    assert trial.pairs == 2
    assert trial.measured == pytest.approx(2.0, rel=0.02)


def make_finding(speedup: float = 2.0) -> Finding:
    return Finding("some-finding", "title", "train.py", 1, 0.5, speedup, (), "", "")


def make_patch(file: Path, edit: Edit, name: str = "patch", speedup: float = 2.0, **more: object) -> Patch:
    text = file.read_text(encoding="utf-8")
    return Patch(name, make_finding(speedup), str(file), text, (edit,), "what", **more)  # type: ignore[arg-type]


def make_result(**changes: object) -> CureResult:
    trial = CureResult(
        cure="patch",
        finding="some-finding",
        what="what",
        predicted=2.0,
        measured=1.8,
        low=1.5,
        high=2.1,
        cpu=1.8,
        cpu_low=1.6,
        cpu_high=2.0,
        pairs=3,
        numbers="equal",
        numbers_because="equal",
        load=1.0,
        busy=False,
        verdict="Faster.",
    )
    return replace(trial, **changes)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("a = 1\nb = 2\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("patch", "trial", "kept"),
    [
        ({}, {}, True),
        ({}, {"low": 0.97}, False),
        ({}, {"low": 0.97, "busy": True}, True),
        ({}, {"low": 0.97, "busy": True, "cpu_low": 0.9}, False),
        ({}, {"low": 0.8, "measured": 0.99, "busy": True}, False),
        ({}, {"pairs": 1}, False),
        ({}, {"numbers": "unknown"}, False),
        ({}, {"numbers": "different"}, False),
        ({"changes_learning": True}, {"numbers": "different"}, True),
        ({}, {"numbers": "rounded"}, False),
        ({"changes": "rounding"}, {"numbers": "rounded"}, True),
        ({"speedup": 1.0}, {"measured": 0.99, "low": 0.9, "high": 1.1}, True),
        ({"speedup": 1.0}, {"measured": 0.8, "low": 0.7, "high": 0.9}, False),
    ],
)
def test_which_patches_are_kept(
    file: Path, patch: dict[str, object], trial: dict[str, object], kept: bool
) -> None:
    (chosen,) = choose_patches([make_patch(file, Edit(4, 5, "3"), **patch)], (make_result(**trial),))  # type: ignore[arg-type]
    assert chosen.kept is kept
    assert "+a = 3" in chosen.patch


def test_of_two_patches_for_one_place_the_faster_is_kept(file: Path) -> None:
    slow, fast = make_patch(file, Edit(4, 5, "3"), "slow"), make_patch(file, Edit(4, 5, "4"), "fast")
    other = make_patch(file, Edit(10, 11, "5"), "other")
    trials = [make_result(kept=True, measured=measured) for measured in (1.2, 1.9, 1.1)]
    assert [patch.name for patch in select_compatible([slow, fast, other], trials)] == ["fast", "other"]


def test_a_patch_is_written_beside_the_script_and_never_over_it(file: Path) -> None:
    before = file.read_bytes()
    patches = [make_patch(file, Edit(4, 5, "3")), make_patch(file, Edit(10, 11, "5"))]
    (written,) = write_patches(patches)
    assert written == file.with_name("train.doctor.patch")
    assert file.read_bytes() == before
    assert written.read_text(encoding="utf-8") == (
        "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n-a = 1\n-b = 2\n+a = 3\n+b = 5\n"
    )
