"""Prints, logs, and what a script says about its own speed."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_maker import Maker, library, stand_in
from watching import line_of, write_script

from flashdqn.doctor.findings.output import detect_logging, detect_printing, detect_wrong_claims
from flashdqn.doctor.findings.rules import diagnose
from flashdqn.doctor.watch.kinds import Phase

SOURCE = """
    while True:
        env.step(0)  # step
        print(  # print
            f"{mean(returns)} is the mean",  # text
        )
        writer.add_scalar("loss", loss)  # log
        print(f"{steps / seconds} steps/s")  # claim
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SOURCE)


@pytest.fixture
def maker(script: Path) -> Maker:
    return Maker(script)


COUNTS = {"vector_steps": 100.0, "transitions": 100.0}


def train(maker: Maker, script: Path, samples: dict[int, float]) -> None:
    rest = maker.stack(maker.own(line_of(script, "# step")), library("numpy/core.py"))
    maker.train({**samples, rest: 1.0 - sum(samples.values())}, **COUNTS)


def prints(maker: Maker, script: Path, count: int, writing: float, text: float) -> None:
    line = line_of(script, "# print")
    maker.site("print", line, count, 10 * writing)
    written = maker.stack(maker.own(line, "<module>"), stand_in(Phase.PRINTING))
    made = maker.stack(maker.own(line_of(script, "# text"), "<module>"))
    train(maker, script, {written: writing, made: text})


def test_printing_with_the_making_of_the_text(maker: Maker, script: Path) -> None:
    prints(maker, script, 1000, 0.2, 0.3)
    (found,) = detect_printing(maker.evidence())
    assert (found.name, found.line) == ("printing", line_of(script, "# print"))
    assert found.share == pytest.approx(0.5)
    assert found.speedup == pytest.approx(2.0)
    assert found.title == "1 lines are printed for every step"
    assert "called 1,000 times from 1 lines" in found.evidence[0]
    assert "2.00 s" in found.evidence[1]
    assert [f.name for f in diagnose(maker.evidence())] == ["printing"]


def test_prints_that_are_rare_or_cheap(maker: Maker, script: Path) -> None:
    prints(maker, script, 49, 0.2, 0.3)
    assert not list(detect_printing(maker.evidence()))
    maker.site("print", line_of(script, "# claim"), 1000)
    assert next(detect_printing(maker.evidence())).certainty < 0.95


def logs(maker: Maker, script: Path, share: float) -> None:
    own = maker.own(line_of(script, "# log"), "<module>")
    train(maker, script, {maker.stack(own, library("torch/utils/tensorboard/writer.py")): share})


def test_logging(maker: Maker, script: Path) -> None:
    logs(maker, script, 0.4)
    (found,) = detect_logging(maker.evidence())
    assert (found.name, found.line, found.share) == ("logging", line_of(script, "# log"), pytest.approx(0.4))
    assert found.speedup == pytest.approx(1 / 0.6)
    assert [f.name for f in diagnose(maker.evidence())] == ["logging"]


def test_logging_that_costs_little_or_nothing(maker: Maker, script: Path) -> None:
    logs(maker, script, 0.04)
    assert next(detect_logging(maker.evidence())).certainty < 0.95
    healthy = Maker(script)
    train(healthy, script, {})
    assert not list(detect_logging(healthy.evidence()))


def claim(maker: Maker, script: Path, values: list[float], rates: list[float] | None = None) -> list[str]:
    """One claim per second, while `rates` transitions were counted."""
    done = 0.0
    for second, (value, rate) in enumerate(zip(values, rates or [100.0] * len(values), strict=True), 1):
        done += rate
        maker.raw["claims"].append(
            {"time": float(second), "file": str(script), "line": line_of(script, "# claim"), "value": value,
             "text": f"{value} steps/s", "transitions": done}
        )  # fmt: skip
    train(maker, script, {})
    return [found.title for found in detect_wrong_claims(maker.evidence()) if found.certainty >= 0.95]


def test_a_claim_that_is_not_so(maker: Maker, script: Path) -> None:
    assert claim(maker, script, [800.0] * 6) == ["The script says it is 8.0 times faster than it is"]
    (found,) = detect_wrong_claims(maker.evidence())
    assert (found.name, found.line, found.speedup) == ("throughput-claim", line_of(script, "# claim"), 1.0)
    assert found.evidence[0] == "It printed: 800.0 steps/s"
    assert (
        "Counted: 100 transitions per second since its last such line, 100 since the start." in found.evidence
    )
    assert [f.name for f in diagnose(maker.evidence())] == ["throughput-claim"]


def test_a_claim_that_is_too_modest(maker: Maker, script: Path) -> None:
    assert claim(maker, script, [25.0] * 6) == ["The script says it is 4.0 times slower than it is"]


@pytest.mark.parametrize(
    ("values", "rates"),
    [
        ([101.0] * 6, None),
        ([130.0] * 6, None),  # roughly right
        ([800.0] * 3, None),  # claimed too rarely
        ([800.0, 101.0, 99.0, 98.0, 800.0, 101.0], None),  # now and then
        (
            [100.0, 150.0, 200.0, 250.0, 300.0, 350.0],
            [100.0, 200.0, 300.0, 400.0, 500.0, 600.0],
        ),  # from the start
        (
            [100.0, 200.0, 300.0, 400.0, 500.0, 600.0],
            [100.0, 200.0, 300.0, 400.0, 500.0, 600.0],
        ),  # since the last
        ([0.0] * 6, None),
    ],
)
def test_claims_that_are_so(
    maker: Maker, script: Path, values: list[float], rates: list[float] | None
) -> None:
    assert claim(maker, script, values, rates) == []
