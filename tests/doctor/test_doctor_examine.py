"""From a record to a report, also from an almost empty record."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from record_maker import Maker, library, stand_in

from flashdqn.doctor.examine import build_report
from flashdqn.doctor.record import read_record
from flashdqn.doctor.report.contents import Report, write_report_json
from flashdqn.doctor.watch.kinds import Phase


def strict(report: Report, path: Path) -> dict[str, Any]:
    """The report's JSON, read by a parser that does not support NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    write_report_json(report, path)
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)  # type: ignore[no-any-return]


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "train.py")


def test_an_empty_record(maker: Maker, tmp_path: Path) -> None:
    maker.raw |= {"training_began": None, "widths": {}, "looks": 0, "torch": ""}
    report = build_report(maker.record())
    assert (report.seconds, report.samples, report.overhead) == (0.0, 0, 0.0)
    assert (report.phases, report.lines, report.windows, report.findings, report.growth) == (
        (),
        (),
        (),
        (),
        (),
    )
    assert report.bound == "unknown"
    assert (report.environments, report.batch_size) == (0, 0)
    assert math.isnan(report.ratio)
    assert any("No environment was recognized" in note for note in report.notes)
    assert any("No torch optimizer took a step" in note for note in report.notes)
    assert strict(report, tmp_path / "report.json")["ratio"] is None


def test_a_script_that_never_trained(maker: Maker, tmp_path: Path) -> None:
    maker.raw |= {"training_began": None, "widths": {}}
    maker.train({maker.stack(maker.own(3), library("gymnasium/core.py")): 1.0}, 20)
    report = build_report(maker.record())
    assert [(phase.name, phase.share) for phase in report.phases] == [("start-up", 1.0)]
    assert report.findings == ()
    assert report.lines == ()
    assert report.bound == "unknown"
    assert report.seconds == 20.0
    assert strict(report, tmp_path / "report.json")["windows"][0]["episode_length"] is None


def trained(maker: Maker, shares: dict[str, float]) -> Report:
    """Ten seconds with these shares of phases."""
    frames = {
        "environment": [maker.own(5), stand_in(Phase.ENVIRONMENT), library("numpy/core.py")],
        "backward": [maker.own(6), library("torch/autograd/__init__.py")],
        "replay": [maker.own(7, "sample")],
        "python (rest)": [maker.own(8)],
    }
    samples = {maker.stack(*frames[name]): share for name, share in shares.items()}
    maker.train(samples, vector_steps=10.0, transitions=80.0, updates=20.0, episodes=2.0, episode_steps=30.0)
    return build_report(maker.record())


def test_what_is_in_a_report(maker: Maker, tmp_path: Path) -> None:
    maker.raw |= {"widths": {"8": 100, "1": 3}, "arguments": ["--x"], "utilization": None}
    maker.forward(6, 200, 2.0, acting=0, learning=200, graded=200, batch=32, parameters=1_000_000)
    maker.container("returns", range(100, 1000, 100))
    maker.container("steady", [100, 100, 100])
    report = trained(maker, {"environment": 0.3, "backward": 0.7})
    assert (report.transitions, report.vector_steps, report.updates, report.episodes) == (800, 100, 200, 20)
    assert (report.environments, report.batch_size, report.ratio) == (8, 32, 0.25)
    assert [(p.name, round(p.seconds, 6), round(p.share, 6)) for p in report.phases] == [
        ("backward", 7.0, 0.7),
        ("environment", 3.0, 0.3),
    ]
    assert [(line.line, line.phase) for line in report.lines] == [(6, "backward"), (5, "environment")]
    assert [row.name for row in report.growth] == ["returns"]
    assert report.windows[0].episode_length == 15.0
    assert report.windows[0].phases == {"environment": 0.3, "backward": 0.7}
    found = strict(report, tmp_path / "report.json")
    assert found["transitions"] == 800
    assert found["script"] == maker.script


@pytest.mark.parametrize(
    ("shares", "bound"),
    [
        ({"environment": 0.6, "backward": 0.4}, "environment"),
        ({"python (rest)": 0.6, "backward": 0.4}, "python"),
        ({"replay": 0.6, "backward": 0.4}, "python"),  # learning, but not its network
        ({"backward": 0.6, "environment": 0.4}, "unknown"),  # nothing is known about the machine
    ],
)
def test_what_limits_it(maker: Maker, shares: dict[str, float], bound: str) -> None:
    assert trained(maker, shares).bound == bound


@pytest.mark.parametrize(("parameters", "bound"), [(1_000_000, "compute"), (1_000, "launches")])
def test_compute_or_launches(maker: Maker, parameters: int, bound: str) -> None:
    # 200 updates in 7 s are 35 ms each; 2 · parameters · 32 rows · 3 passes at 10 GFLOP/s are 19.2 ms, or 19.2 µs.
    maker.raw["probes"] = {"flops": 1e10}
    maker.forward(6, 200, 2.0, acting=0, learning=200, graded=200, batch=32, parameters=parameters)
    report = trained(maker, {"backward": 0.7, "environment": 0.3})
    assert report.bound == bound
    assert "35,000 µs an update" in report.bound_because


@pytest.mark.parametrize(("busy", "bound"), [(0.9, "compute"), (0.2, "launches"), (None, "unknown")])
def test_a_gpu_tells_how_busy_it_was(maker: Maker, busy: float | None, bound: str) -> None:
    maker.raw |= {"device": "cuda", "utilization": busy}
    assert trained(maker, {"backward": 0.7, "environment": 0.3}).bound == bound


def test_what_the_doctor_itself_cost(maker: Maker) -> None:
    maker.raw["costs"] = {"hooks": 0.3, "looks": 0.1, "clerk": 0.1}
    assert trained(maker, {"backward": 1.0}).overhead == pytest.approx(0.5 / 9.5)


def test_notes(maker: Maker) -> None:
    maker.raw |= {
        "jax": True,
        "timer_taken": True,
        "failures": [{"part": "census", "reason": "no"}],
        "probes": {"failed": [{"part": "threads", "reason": "cannot be copied"}]},
        "ended": "killed",
    }
    notes = " ".join(trained(maker, {"backward": 0.1}).notes)
    for part in (
        "JAX",
        "alarm timer",
        "left out: census: no",
        "'threads' did not work",
        "ended without warning",
    ):
        assert part in notes


def test_records_from_a_file(maker: Maker, tmp_path: Path) -> None:
    trained(maker, {"backward": 1.0})
    record = maker.record()
    again = read_record(json.dumps(record, default=vars))  # as the watch writes it
    assert again == record
    assert build_report(again) == build_report(record)
