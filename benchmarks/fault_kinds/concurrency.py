"""Several commands at once: starts in the same second, resumes of one run, readers beside a writer."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from fault_kinds.children import Child, Outcome, run_command, start_child, start_command, wait_for
from fault_kinds.scenarios import make_beginnings
from fault_kinds.shim import set_clock
from fault_kinds.tally import Tally, scale_count
from fault_kinds.tiny_runs import EVENTS, PLAIN, Digest, digest_run, find_run, list_litter, list_resumable

STARTS, RESUMES = 8, 4
#: Rounds at full effort.
ROUNDS = 12
#: A training that prunes states while others read.
LONG = ["--steps", "2000", "--log.checkpoint-every", "80"]


def try_faults(effort: float, folder: Path) -> list[Tally]:
    """A row for each thing that is done at once."""
    begins = make_beginnings(folder)
    finished, whole = find_run(begins["finished"]), folder / "whole"
    assert finished is not None
    shutil.copytree(begins["stopped"], whole)
    resumed = find_run(whole)
    assert resumed is not None
    assert run_command(["train", "--resume", str(resumed)]).code == 0
    expected = digest_run(resumed)
    rows = [
        Tally(
            "starts at once in one folder", note=f"{STARTS} each time, every second time in the same second"
        ),
        Tally("resumes of one run at once", note=f"{RESUMES} each time: one wins"),
        Tally("reading while a training writes"),
        Tally("reports of one run at once"),
        Tally("a copy made while a training writes"),
    ]
    for number in range(scale_count(ROUNDS, effort)):
        place = folder / f"round-{number}"
        start_at_once(rows[0], place / "starts", expected, stuck=number % 2 == 0)
        resume_at_once(rows[1], begins["stopped"], place / "resumes", expected)
        read_while_training(rows[2], place / "reading")
        report_at_once(rows[3], begins["finished"], place / "reports")
        copy_while_training(rows[4], begins["stopped"], place / "copy", expected)
        shutil.rmtree(place)
    return rows


def describe_end(outcome: Outcome, *sentences: str) -> str:
    """What is wrong: neither success nor one of the allowed sentences."""
    if outcome.crashed:
        return str(outcome)
    fine = outcome.code == 0 or any(sentence in outcome.said for sentence in sentences)
    return "" if fine else str(outcome)


def start_at_once(row: Tally, out: Path, expected: Digest, stuck: bool) -> None:
    """Every start gets its own folder, and comes to the same weights."""
    freeze: Callable[[], None] | None = (lambda: set_clock(2)) if stuck else None
    words = ["train", *PLAIN, "--out", str(out)]
    children = [start_command(words, before=freeze) for _ in range(STARTS)]
    ends = [child.wait() for child in children]
    runs = sorted(path for path in out.iterdir() if path.is_dir())
    for outcome in ends:
        wrong = str(outcome) if outcome.crashed or outcome.code else ""
        row.check(not wrong and len(runs) == STARTS, f"{wrong}; {len(runs)} folders of {STARTS}")
    for run in runs:
        wrong = digest_run(run).differs(expected) if (run / "summary.json").exists() else "no summary"
        row.check(not wrong, wrong)


def resume_at_once(row: Tally, begin: Path, out: Path, expected: Digest) -> None:
    """One of them trains; the others say so and change nothing."""
    shutil.copytree(begin, out)
    run = find_run(out)
    assert run is not None
    children = [start_command(["train", "--resume", str(run)]) for _ in range(RESUMES)]
    ends = [child.wait() for child in children]
    for outcome in ends:
        wrong = describe_end(outcome, "by another process", "used its budget")
        row.check(not wrong, wrong)
    won = sum(outcome.code == 0 for outcome in ends)
    wrong = digest_run(run).differs(expected)
    row.check(won == 1 and not wrong, f"{won} of {RESUMES} have trained; {wrong}")


def read_while_training(row: Tally, out: Path) -> None:
    """eval, report and watch, again and again, while checkpoints come and states go."""
    writer = start_command(["train", *EVENTS, *LONG, "--out", str(out)])
    wait_for(lambda: (run := find_run(out)) is not None and bool(list_resumable(run)))
    run = find_run(out)
    assert run is not None
    readers: tuple[list[str], ...] = (
        ["eval", str(run), "--episodes", "3"],
        ["report", str(run)],
        ["watch", str(run), "--fps", "0", "--seed", "3"],
        ["report", str(run), "--out", str(out / "page.html")],
    )
    for words in readers:
        wrong = describe_end(run_command(words), "holds no checkpoint yet")
        row.check(not wrong, f"{words[0]}: {wrong}")
    wrong = describe_end(writer.wait())
    row.check(not wrong and not list_litter(run), f"the training itself: {wrong}, {list_litter(run)}")


def report_at_once(row: Tally, begin: Path, out: Path) -> None:
    """All write the same page, and it is whole."""
    shutil.copytree(begin, out)
    run = find_run(out)
    assert run is not None
    children = [start_command(["report", str(run)]) for _ in range(RESUMES)]
    for outcome in [child.wait() for child in children]:
        wrong = describe_end(outcome)
        row.check(not wrong, wrong)
    whole = (run / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    row.check(whole and not list_litter(run), f"the page is whole: {whole}; litter: {list_litter(run)}")


def copy_while_training(row: Tally, begin: Path, out: Path, expected: Digest) -> None:
    """The copy can be resumed, or a sentence says why not; the run itself does not notice."""
    shutil.copytree(begin, out)
    run = find_run(out)
    assert run is not None
    writer = start_command(["train", "--resume", str(run)])
    copier: Child = start_child(lambda: copy_folder(run, out.parent / "copied" / "run"))
    copier.wait()
    wrong = describe_end(writer.wait()) or digest_run(run).differs(expected)
    row.check(not wrong, f"the run itself: {wrong}")
    outcome = run_command(["train", "--resume", str(out.parent / "copied" / "run")])
    wrong = str(outcome) if outcome.crashed or (outcome.code and not outcome.said) else ""
    if outcome.code == 0:
        wrong = digest_run(out.parent / "copied" / "run").differs(expected)
    row.check(not wrong, f"the copy: {wrong}")


def copy_folder(source: Path, to: Path) -> int:
    """As `cp -r` does: what vanishes meanwhile is left out."""
    try:
        shutil.copytree(source, to)
    except shutil.Error:
        return 1
    return 0
