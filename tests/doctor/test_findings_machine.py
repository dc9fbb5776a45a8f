"""Compilers, threads, and waiting for the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_maker import Maker, library
from watching import line_of, write_script

from flashdqn.doctor.findings.machine import (
    detect_compilation,
    detect_excess_threads,
    detect_host_syncs,
    detect_idle_gpu,
)
from flashdqn.doctor.findings.rules import diagnose

SOURCE = """
    torch.set_num_threads(8)  # threads
    while True:
        action = network(obs)
        env.step(action.item())  # step
        learn(batch)  # learn
        optimizer.step()  # optimizer
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SOURCE)


@pytest.fixture
def maker(script: Path) -> Maker:
    maker = Maker(script)
    maker.site("env step", line_of(script, "# step"), 100)
    maker.site("optimizer", line_of(script, "# optimizer"), 100, 0.1)
    return maker


COUNTS = {"vector_steps": 10.0, "transitions": 10.0, "updates": 1.0}


def compile_in(maker: Maker, script: Path, periods: str, share: float = 0.4) -> None:
    """A window for each letter; c: a compiler is at work for a share of it."""
    learn = maker.own(line_of(script, "# learn"), "<module>")
    work = maker.stack(learn, library("torch/_dynamo/convert_frame.py"), library("torch/fx/graph.py"))
    plain = maker.stack(learn, library("torch/autograd/__init__.py"))
    for letter in periods:
        compiling = share if letter == "c" else 0.0
        maker.train({work: compiling, plain: 1.0 - compiling}, 1, **COUNTS)


def test_compiling_in_the_middle_of_training(maker: Maker, script: Path) -> None:
    compile_in(maker, script, "..cc..c...")
    (found,) = detect_compilation(maker.evidence())
    assert (found.name, found.line) == ("compile-in-training", line_of(script, "# learn"))
    assert found.share == pytest.approx(0.12)
    assert found.speedup == pytest.approx(1 / 0.88)
    assert "1.2 s, 12% of the training, in 2 periods." in found.evidence[0]
    assert [f.name for f in diagnose(maker.evidence())] == ["compile-in-training"]


@pytest.mark.parametrize(
    ("periods", "share"),
    [
        ("..........", 0.4),  # cured: all before training began
        ("cc........", 0.4),  # a start-up
        ("....c.....", 0.2),  # almost nothing
        ("....c....." * 4, 0.4),  # a hundredth of the time
    ],
)
def test_compiling_that_is_no_trouble(maker: Maker, script: Path, periods: str, share: float) -> None:
    compile_in(maker, script, periods, share)
    assert not diagnose(maker.evidence())


def thread(maker: Maker, script: Path, now: int, probe: dict[str, float]) -> None:
    maker.raw["threads"] = now
    maker.raw["probes"] = {
        "threads": {
            number: {"mean": seconds, "low": 0.9 * seconds, "high": 1.1 * seconds}
            for number, seconds in probe.items()
        }
    }
    frames = maker.own(line_of(script, "# learn"), "<module>"), library("torch/autograd/__init__.py")
    rest = maker.stack(maker.own(line_of(script, "# step"), "<module>"), library("numpy/core.py"))
    maker.train({maker.stack(*frames): 0.8, rest: 0.2}, **(COUNTS | {"cpu": 3.5}))


def test_too_many_threads(maker: Maker, script: Path) -> None:
    thread(maker, script, 8, {"1": 1e-3, "4": 2e-3, "8": 4e-3})
    (found,) = detect_excess_threads(maker.evidence())
    assert (found.name, found.line) == ("too-many-threads", line_of(script, "# threads"))
    assert found.title == "8 threads for work that is faster with 1"
    assert found.share == pytest.approx(0.8 * 0.75)
    assert found.speedup == pytest.approx(1 / (0.2 + 0.8 / 4))
    assert found.least == pytest.approx(1 / (0.2 + 0.8 / (4 * 0.9 / 1.1)))
    assert found.most == pytest.approx(1 / (0.2 + 0.8 / (4 * 1.1 / 0.9)))
    assert found.cure == "threads"
    assert "kept 3.5 busy" in found.evidence[1]
    assert [f.name for f in diagnose(maker.evidence())] == ["too-many-threads"]


def test_too_many_threads_on_a_machine_that_others_use(maker: Maker, script: Path) -> None:
    thread(maker, script, 8, {"1": 1e-3, "8": 4e-3})
    for window in maker.raw["windows"]:
        window["machine"] = 5.5  # of which the script used 3.5
    (found,) = detect_excess_threads(maker.evidence())
    assert found.speedup == found.least
    assert "Other programs kept 2.0 of 4 cores busy meanwhile" in found.evidence[-1]


def test_threads_whose_times_overlap_are_not_reported(maker: Maker, script: Path) -> None:
    thread(maker, script, 8, {"1": 1e-3, "8": 1.3e-3})
    for times in maker.raw["probes"]["threads"].values():
        times["low"], times["high"] = 0.5 * times["mean"], 2 * times["mean"]
    (found,) = detect_excess_threads(maker.evidence())
    assert found.certainty == 0.0


@pytest.mark.parametrize(
    ("now", "probe"),
    [
        (1, {"1": 1e-3, "4": 2e-3}),  # cured
        (4, {"1": 4e-3, "4": 1e-3}),  # they are worth it
        (1, {"1": 4e-3, "4": 1e-3}),  # too few threads is another problem
        (4, {"1": 1.0e-3, "4": 1.2e-3}),  # almost the same
    ],
)
def test_threads_as_they_should_be(maker: Maker, script: Path, now: int, probe: dict[str, float]) -> None:
    thread(maker, script, now, probe)
    (found,) = detect_excess_threads(maker.evidence())
    assert found.certainty == 0.0
    assert found.speedup >= 1.0


def test_threads_without_a_probe(maker: Maker, script: Path) -> None:
    thread(maker, script, 8, {})
    assert not list(detect_excess_threads(maker.evidence()))
    maker.raw["probes"] = {
        "threads": {"1": {"mean": 1e-3, "low": 1e-3, "high": 1e-3}}
    }  # the script changed their number at the end
    assert not list(detect_excess_threads(maker.evidence()))


def wait(maker: Maker, script: Path, seconds: float, busy: float | None = None) -> None:
    line = line_of(script, "# step")
    maker.site("item", line, 100, seconds, on_device=100)
    maker.site("to", line_of(script, "# learn"), 500, 0.01, on_device=0)  # on the host
    maker.raw["utilization"] = busy
    maker.raw["device"] = "cuda"
    maker.train({maker.stack(maker.own(line, "<module>")): 1.0}, **COUNTS)


def test_the_host_waits_for_the_gpu(maker: Maker, script: Path) -> None:
    wait(maker, script, 5.0)
    (found,) = detect_host_syncs(maker.evidence())
    assert (found.name, found.line) == ("host-syncs", line_of(script, "# step"))
    assert found.title == "The host waits for the GPU 1 times a step"
    assert found.share == pytest.approx(0.5)
    assert found.speedup == pytest.approx(2.0)
    assert ".item() 100 times, 50,000 µs each, 50% of the time" in found.evidence[0]
    assert len(found.evidence) == 1


def test_no_more_than_the_gpu_has_left(maker: Maker, script: Path) -> None:
    wait(maker, script, 5.0, busy=0.8)
    (found,) = detect_host_syncs(maker.evidence())
    assert found.speedup == pytest.approx(1.25)
    assert found.evidence[-1] == "The GPU was busy 80% of the time."
    maker.raw["utilization"] = 1.0
    assert next(detect_host_syncs(maker.evidence())).speedup == 1.0


def test_waits_that_cost_nothing_and_no_waits_at_all(maker: Maker, script: Path) -> None:
    wait(maker, script, 0.3)
    assert next(detect_host_syncs(maker.evidence())).certainty < 0.95
    maker.raw["sites"] = [site for site in maker.raw["sites"] if not site["on_device"]]
    assert not list(detect_host_syncs(maker.evidence()))


def test_a_gpu_with_little_to_do(maker: Maker, script: Path) -> None:
    wait(maker, script, 0.0, busy=0.1)
    maker.forward(line_of(script, "# learn"), 100, 1.0, acting=0, learning=100, batch=64)
    (found,) = detect_idle_gpu(maker.evidence())
    assert (found.name, found.speedup) == ("starved-device", 1.0)
    assert found.title == "The GPU is idle 90% of the time"
    assert "batches of 64" in found.evidence[0]


@pytest.mark.parametrize(("device", "busy"), [("cuda", 0.31), ("cuda", None), ("cpu", 0.0)])
def test_a_gpu_that_is_busy_or_none(maker: Maker, script: Path, device: str, busy: float | None) -> None:
    wait(maker, script, 0.0, busy=busy)
    maker.raw["device"] = device
    assert not list(detect_idle_gpu(maker.evidence()))
