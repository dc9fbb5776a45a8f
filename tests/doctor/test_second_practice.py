"""Shapes of real scripts that the doctor once got wrong."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_maker import Maker, library, stand_in, standard
from watching import line_of, watch_script, write_script

from flashdqn.core.errors import ConfigError
from flashdqn.doctor.evidence import compute_share
from flashdqn.doctor.examine import build_report
from flashdqn.doctor.findings.growth import detect_slow_down
from flashdqn.doctor.findings.loading import detect_slow_loader
from flashdqn.doctor.findings.rules import diagnose
from flashdqn.doctor.findings.sleeping import detect_sleeping
from flashdqn.doctor.findings.throttled import detect_throttling
from flashdqn.doctor.findings.workers import detect_waiting
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.report.page_cards import render_text
from flashdqn.doctor.report.words import describe_no_findings, format_gain, list_head_figures
from flashdqn.doctor.run import choose_lead
from flashdqn.doctor.watch.kinds import Phase

seconds = st.floats(0.0, 1e3) | st.sampled_from([0.0, 1e-12, 1e9])
counts = st.integers(0, 10**6)


@st.composite
def records(draw: st.DrawFn) -> Maker:
    """Records of all kinds, also such as no script could have made."""
    maker = Maker(
        Path("train.py"),
        training_began=draw(st.none() | st.floats(0.0, 10.0)),
        learning_began=draw(st.none() | st.floats(0.0, 10.0)),
        looks=draw(counts),
        device=draw(st.sampled_from(["cpu", "cuda"])),
        utilization=draw(st.none() | st.floats(0.0, 1.0)),
        widths={str(draw(st.integers(1, 64))): draw(counts)},
        ended=draw(st.sampled_from(["stopped", "failed", "finished"])),
    )
    stacks = [
        maker.stack(maker.own(1), stand_in(phase))
        for phase in (Phase.ENVIRONMENT, Phase.BACKWARD, Phase.FORWARD, Phase.OPTIMIZER, Phase.DATA_MOVEMENT)
    ]
    stacks += [
        maker.stack(maker.own(2), library("torch/utils/data/dataloader.py")),
        maker.stack(maker.own(3)),
    ]
    stacks += [maker.stack(maker.own(4), standard("multiprocessing/connection.py", "_recv"))]
    for start in range(draw(st.integers(0, 5))):
        samples = {number: draw(seconds) for number in draw(st.lists(st.sampled_from(stacks), max_size=4))}
        row = {name: draw(counts) for name in ("transitions", "vector_steps", "updates", "episodes")}
        maker.window(samples, float(start), cpu=draw(seconds), queued=draw(seconds), **row)
    for kind in ("item", "to", "optimizer", "backward", "env step", "print"):
        maker.site(
            kind, draw(st.integers(1, 5)), draw(st.integers(1, 10**6)), draw(seconds), on_device=draw(counts)
        )
    maker.forward(1, draw(st.integers(1, 10**5)), draw(seconds), graded=draw(counts))
    for name in ("counted", "called"):
        maker.raw[name] = {"vector_steps": draw(counts), "updates": draw(counts), "seconds": draw(seconds)}
    maker.raw["probes"] = {"optimizer": {"now": 1e-3, "cured": 1e-4}, "no_grad": {"now": 1e-3, "cured": 5e-4}}
    return maker


@settings(max_examples=60, deadline=None)
@given(records())
def test_a_share_is_never_more_than_the_whole(maker: Maker) -> None:
    report = build_report(maker.record())
    parts = [*report.findings, *report.lines, *report.copies, *report.operations, *report.phases]
    assert all(0.0 <= part.share <= 1.0 for part in parts)
    assert all(math.isfinite(finding.speedup) and finding.speedup >= 1.0 for finding in report.findings)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_nothing_can_hold_another_share(share: float, whole: float) -> None:
    finding = Finding("name", "Title", "file.py", 1, share, 2.0, (), "", "")
    assert 0.0 <= finding.share <= 1.0
    if math.isfinite(share) and math.isfinite(whole):
        assert 0.0 <= compute_share(share, whole) <= 1.0


def test_a_share_of_no_counted_seconds(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py")
    maker.site("item", 3, 1000, 6.0)
    maker.train({maker.stack(maker.own(3)): 1.0}, 10, vector_steps=10)
    maker.raw["counted"]["seconds"] = 0.0
    (line,) = build_report(maker.record()).copies
    assert line.share == pytest.approx(0.6)


def updating(tmp_path: Path, warm_up: int) -> Maker:
    """Ten seconds of an update after every step, after some seconds without any."""
    script = tmp_path / "train.py"
    script.write_text("for _ in range(9):\n    env.step(0)\n    loss.backward()\n    optimizer.step()\n")
    maker = Maker(script, learning_began=float(warm_up))
    maker.site("env step", 2, 1000)
    maker.site("optimizer", 4, 1000, 1.0)
    maker.raw["optimizers"] = [
        {
            "name": "Adam",
            "fused": True,
            "can_fuse": True,
            "tensors": 4,
            "elements": 9,
            "steps": 1000,
            "seconds": 1.0,
        }
    ]
    env = maker.stack(maker.own(2, "<module>"), stand_in(Phase.ENVIRONMENT))
    learn = maker.stack(maker.own(3, "<module>"), stand_in(Phase.BACKWARD))
    maker.train({env: 1.0}, warm_up, transitions=5000, vector_steps=5000)
    maker.train({env: 0.1, learn: 0.9}, 10, transitions=100, vector_steps=100, updates=100)
    maker.raw["bursts"] = {"number": 1000, "transitions": 999, "vector_steps": 999, "updates": 999}
    return maker


def test_a_warm_up_does_not_hide_that_every_step_trains(tmp_path: Path) -> None:
    maker = updating(tmp_path, 5)
    (found,) = diagnose(maker.evidence())
    assert found.name == "train-every-step"
    assert found.share == pytest.approx(0.9)
    report = build_report(maker.record())
    assert report.warm_up == 25_000
    assert report.ratio == pytest.approx(1.0)


def test_rates_are_per_second_of_training(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py", training_began=30.0)
    maker.train({maker.stack(maker.own(1)): 1.0}, 30)
    maker.train({maker.stack(maker.own(1)): 1.0}, 10, transitions=100, vector_steps=100)
    report = build_report(maker.record())
    assert report.training_seconds == 10.0
    assert list_head_figures(report)[0] == ("transitions", "1,000", "100/s")


def test_a_time_per_call_needs_calls(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py", environments=1)
    maker.forward(1, 2, 0.6, first=0.59)
    maker.raw["probes"] = {"acting": {"1": 1e-4, "16": 1e-4}}
    maker.train({maker.call(1): 1.0}, 10, vector_steps=1)
    assert diagnose(maker.evidence()) == ()


def test_a_script_that_fails_early_gets_no_findings_about_speed(tmp_path: Path) -> None:
    maker = updating(tmp_path, 0)
    assert diagnose(maker.evidence())
    for window in maker.raw["windows"]:
        window["seconds"] = 0.5
    maker.raw["ended"] = "failed"
    assert diagnose(maker.evidence()) == ()


def test_a_moment_of_training_is_not_called_healthy(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py")
    maker.window({maker.stack(maker.own(1)): 0.01}, 0.0, seconds=0.01, transitions=3, vector_steps=3)
    assert "too short to judge" in describe_no_findings(build_report(maker.record()))


def test_backticks_are_code_on_the_page() -> None:
    assert render_text("`x < y` grows") == "<code>x &lt; y</code> grows"
    assert render_text("a ` alone") == "a ` alone"


def test_a_range_of_gains() -> None:
    finding = Finding("name", "Title", "file.py", 1, 0.5, 2.0, (), "", "", least=1.3, most=3.2)
    assert format_gain(finding) == "1.3 to 3.2x faster"
    assert format_gain(Finding("name", "Title", "file.py", 1, 0.5, 2.0, (), "", "")) == "2.0x faster"


def test_a_library_s_line_becomes_the_user_s(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "train.py")
    inside = "/x/lib/python3.11/site-packages/some_rl/algorithm.py"
    maker.site("print", 40, 5000, 5.0, file=inside)
    frame = library("some_rl/algorithm.py", "learn")
    theirs = type(frame)(inside, "learn", 40, maker.own(1).owner)
    maker.train({maker.stack(maker.own(7), theirs): 1.0}, 10, vector_steps=100)
    (found,) = diagnose(maker.evidence())
    assert (found.name, found.file, found.line) == ("printing", maker.script, 7)
    assert found.within == f"{inside}:40"


def test_a_machine_that_gets_slower_is_not_the_script(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "train.py")
    env, rest = maker.stack(maker.own(1), stand_in(Phase.ENVIRONMENT)), maker.stack(maker.own(2))
    for steps in (1000, 1000, 1000, 400, 400, 400):
        maker.train({env: 0.5, rest: 0.5}, 3, transitions=steps, vector_steps=steps)
    assert not list(detect_slow_down(maker.evidence()))


def worker(maker: Maker, work: float, cpu: float, steps: int = 100, rows: int = 10) -> None:
    """A child that works this share of its time."""
    child = Maker(Path(maker.script), process={"pid": 7, "parent": 1, "how": "fork", "name": "ForkProcess-1"})
    own = child.stack(child.own(5, "Walk.step"))
    wait = child.stack(child.own(3, "serve"), standard("multiprocessing/connection.py", "Connection._recv"))
    child.train({own: work, wait: 1 - work}, rows, vector_steps=steps, transitions=steps, cpu=cpu)
    maker.raw.setdefault("children", []).append(child.raw | {"frames": child.frames, "stacks": child.stacks})


def waiting(tmp_path: Path, share: float) -> Maker:
    script = tmp_path / "train.py"
    script.write_text("pipe.send(1)\npipe.recv()\nwhile True:\n    learn()\n    step()\n")
    maker = Maker(script)
    pipe = [
        standard("multiprocessing/connection.py", "Connection.recv"),
        standard("multiprocessing/connection.py", "Connection._recv"),
    ]
    stack = maker.stack(maker.own(2), stand_in(Phase.ENVIRONMENT), *pipe)
    maker.train({stack: share, maker.stack(maker.own(4)): 1 - share}, vector_steps=100, transitions=200)
    return maker


@pytest.mark.parametrize(
    ("work", "cpu", "name", "line"),
    [(0.1, 0.1, "costly-messages", 2), (0.9, 0.9, "slow-worker", 5), (0.45, 0.45, "waiting-for-workers", 2)],
)
def test_who_waits_for_whom(tmp_path: Path, work: float, cpu: float, name: str, line: int) -> None:
    maker = waiting(tmp_path, 0.73)
    for _ in range(2):
        worker(maker, work, cpu)
    (found,) = detect_waiting(maker.evidence())
    assert (found.name, found.line) == (name, line)
    assert "waits for 2 workers 73% of the time" in found.evidence[0]
    assert found.speedup > 1.05
    (row,) = build_report(maker.record()).workers
    assert (row.number, row.steps) == (2, 2000)
    assert row.working == pytest.approx(work, abs=0.01)


def test_messages_cost_what_the_main_process_would_save(tmp_path: Path) -> None:
    maker = waiting(tmp_path, 0.8)
    for _ in range(2):
        worker(maker, 0.1, 0.1)
    (found,) = detect_waiting(maker.evidence())
    assert found.speedup == pytest.approx(
        1 / (0.2 + 0.8 * (2.0 / 8.0))
    )  # eight seconds of waiting for two of work


def test_waiting_on_a_crowded_machine_is_not_the_messages(tmp_path: Path) -> None:
    maker = waiting(tmp_path, 0.8)
    for window in maker.raw["windows"]:
        window["machine"] = 3.9
    for _ in range(2):
        worker(maker, 0.2, 0.2)
    (found,) = detect_waiting(maker.evidence())
    assert found.name == "slow-worker"


def test_one_slow_worker(tmp_path: Path) -> None:
    maker = waiting(tmp_path, 0.8)
    worker(maker, 0.9, 0.9)
    for _ in range(3):
        worker(maker, 0.2, 0.2)
    (found,) = detect_waiting(maker.evidence())
    assert found.name == "slow-worker"
    assert "One of 4 workers" in found.title


def test_workers_that_nobody_waits_for(tmp_path: Path) -> None:
    maker = waiting(tmp_path, 0.05)
    worker(maker, 0.9, 0.9)
    assert not list(detect_waiting(maker.evidence()))


def test_the_process_that_trains_is_reported(tmp_path: Path) -> None:
    maker = waiting(tmp_path, 1.0)
    worker(maker, 0.9, 0.9)
    maker.raw["children"][0]["windows"][0]["counts"]["updates"] = 50
    lead = choose_lead(maker.record())
    assert lead.process.pid == 7
    assert lead.totals.updates == 50
    assert (lead.script, len(lead.children)) == (maker.script, 1)


def loading(tmp_path: Path, **use: Any) -> Maker:
    script = tmp_path / "train.py"
    script.write_text(
        "class Data:\n    def __getitem__(self, i):\n        return slow(i)\nfor x in loader:\n    learn(x)\n"
    )
    maker = Maker(script, widths={})
    row = {
        "file": str(script), "line": 4, "workers": 0, "batch": 64, "pinned": False, "persistent": False,
        "dataset": "Data", "length": 1000, "epochs": 3, "starting": 0.01,
    }  # fmt: skip
    maker.raw["loaders"] = [row | use]
    fetch = library("torch/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch")
    load = maker.stack(maker.own(4, "<module>"), fetch, maker.own(3, "Data.__getitem__"))
    learn = maker.stack(maker.own(5, "<module>"), stand_in(Phase.BACKWARD))
    maker.train({load: 0.7, learn: 0.3}, updates=100)
    return maker


def test_a_loader_without_workers(tmp_path: Path) -> None:
    maker = loading(tmp_path)
    (found,) = diagnose(maker.evidence())
    assert (found.name, found.line) == ("slow-loader", 3)
    assert found.share == pytest.approx(0.7)
    assert found.least <= found.speedup <= found.most <= 1 / 0.3 + 0.01
    assert "reward" not in found.example
    assert build_report(maker.record()).bound == "loading"


def test_tensors_that_a_loader_takes_apart(tmp_path: Path) -> None:
    maker = loading(tmp_path, dataset="TensorDataset")
    maker.stacks[0] = maker.stacks[0][:2]
    (found,) = detect_slow_loader(maker.evidence())
    assert "takes tensors apart" in found.title
    assert found.line == 4


def test_a_clock_that_nobody_watches(tmp_path: Path) -> None:
    script = tmp_path / "game.py"
    script.write_text("import pygame\nwhile True:\n    clock.tick(40)\n    play()\n")
    maker = Maker(script)
    maker.train({maker.stack(maker.own(3)): 0.7, maker.stack(maker.own(4)): 0.3}, vector_steps=100)
    (found,) = detect_sleeping(maker.evidence())
    assert (found.name, found.line, found.limit) == ("sleeping", 3, "sleep")
    assert found.speedup == pytest.approx(1 / 0.3)


def test_a_script_that_gets_no_core(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "none.py")
    maker.train({maker.stack(maker.own(1)): 1.0}, 10, queued=0.4)
    (found,) = detect_throttling(maker.evidence())
    assert found.name == "throttled"
    assert "waited for a core, 40% of the time" in found.evidence[0]
    calm = Maker(tmp_path / "none.py")
    calm.train({calm.stack(calm.own(1)): 1.0}, 10, queued=0.05)
    assert not list(detect_throttling(calm.evidence()))


def test_an_input_that_nobody_answers_is_ended_in_time(tmp_path: Path) -> None:
    text = """
    import os, sys
    import torch
    reading, writing = os.pipe()
    sys.stdin = os.fdopen(reading)
    input()
    """
    path = write_script(tmp_path, text, hollow=True)
    start = time.monotonic()
    record = watch_script(path, seconds=1.0, grace=60.0)
    assert record.ended == "stopped"
    assert time.monotonic() - start < 40  # without the interruption: a minute


def test_another_framework_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text('__version__ = "2.0"\n', encoding="utf-8")
    path = write_script(tmp_path, "import tensorflow, time\nwhile True: time.sleep(0.01)\n")
    with pytest.raises(ConfigError, match="trains with tensorflow and never imported torch"):
        watch_script(path, seconds=300.0)


def test_a_list_is_named_once(tmp_path: Path) -> None:
    text = """
    import time
    import torch


    class Agent:
        def __init__(self, memory):
            self.memory = memory


    memory = list(range(100))
    agent = Agent(memory)  # the same list
    while True:
        memory.append(0)
        time.sleep(0.001)
    """
    record = watch_script(write_script(tmp_path, text, hollow=True), seconds=5.0)
    assert [c.name for c in record.containers] in (["memory"], [])


STRAIGHT = """
    import torch
    import time

    class Env:
        def reset(self):
            return 0

        def step(self, action):
            return 0, 0.0, False, {}

    numbers = list(range(20_000))
    env = Env()
    while True:
        env.step(0)
        found = 99_999 in numbers  # heavy
        small = found
        length = len(numbers)  # next
"""


def test_time_is_not_put_at_the_next_call(tmp_path: Path) -> None:
    path = write_script(tmp_path, STRAIGHT, hollow=True)
    record = watch_script(path, seconds=4.0)
    heavy, after = line_of(path, "# heavy"), line_of(path, "# next")
    spent: dict[tuple[int, int], float] = {}
    for window in record.windows:
        for number, value in window.samples.items():
            frame = record.frames[record.stacks[number][-1]]
            if frame.file == str(path):
                key = (frame.since or frame.line, frame.line)
                spent[key] = spent.get(key, 0.0) + value
    assert spent
    most = max(spent, key=lambda key: spent[key])
    assert most[0] <= heavy <= most[1] <= after


LEFT_BEHIND = """
    import multiprocessing, pathlib, time
    import torch


    def work():
        while True:
            time.sleep(0.01)


    if __name__ == "__main__":
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        pathlib.Path(__file__).with_name("pid").write_text(str(process.pid))
        while True:
            time.sleep(0.01)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split(")")[-1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.process
def test_a_stopped_script_leaves_nobody_behind(tmp_path: Path) -> None:
    path = write_script(tmp_path, LEFT_BEHIND, hollow=True)
    record = watch_script(path, seconds=4.0, grace=3.0)  # it waits for its child, and is killed
    assert len(record.children) == 1
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    for _ in range(200):
        if not is_alive(pid):
            break
        time.sleep(0.05)
    assert not is_alive(pid)
