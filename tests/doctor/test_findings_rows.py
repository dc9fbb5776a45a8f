"""Work done row by row: copies, loops, batches from lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_maker import Maker, library, stand_in
from watching import line_of, write_script

from flashdqn.doctor.findings.rows import BATCHED, detect_list_batches, detect_row_copies, detect_row_loops
from flashdqn.doctor.findings.rules import diagnose
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.kinds import Phase

SOURCE = """
    def main():
        for step in range(1000):
            obs = env.step(0)  # step
            for i in range(64):  # rows
                push(obs[i].item())  # copy
                push(rewards[i])  # index
            values = [network(row) for row in obs]
            for k in range(4):
                learn()  # learn


    def learn():
        batch = torch.tensor([t[0] for t in memory])  # list
        loss = f(batch)
        loss.backward()  # backward
        optimizer.step()  # optimizer
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write_script(tmp_path, SOURCE)


@pytest.fixture
def maker(script: Path) -> Maker:
    """100 steps and 100 updates in ten seconds."""
    maker = Maker(script, widths={"64": 100})
    maker.site("env step", line_of(script, "# step"), 100)
    maker.site("backward", line_of(script, "# backward"), 100)
    maker.site("optimizer", line_of(script, "# optimizer"), 100)
    return maker


COUNTS = {"vector_steps": 10.0, "transitions": 640.0, "updates": 10.0}


def train(maker: Maker, script: Path, samples: dict[int, float], windows: int = 10) -> None:
    """These shares of each second; the rest is a step of the environment."""
    rest = maker.stack(
        maker.own(line_of(script, "# step")), stand_in(Phase.ENVIRONMENT), library("numpy/core.py")
    )
    maker.train({**samples, rest: 1.0 - sum(samples.values())}, windows=windows, **COUNTS)


def copying(maker: Maker, script: Path, share: float, count: int = 6400, **more: int) -> list[Finding]:
    line = line_of(script, "# copy")
    maker.site("item", line, count)
    train(maker, script, {maker.stack(maker.own(line), stand_in(Phase.DATA_MOVEMENT)): share}, **more)
    return list(detect_row_copies(maker.evidence()))


def test_copies_in_a_loop_over_rows(maker: Maker, script: Path) -> None:
    (found,) = copying(maker, script, 0.6)
    assert (found.name, found.file, found.line) == ("per-row-copies", str(script), line_of(script, "# copy"))
    assert found.share == pytest.approx(0.6)
    assert found.speedup == pytest.approx(1 / (0.4 + 0.6 / BATCHED))
    assert found.title.startswith("64 values a step")
    assert ".item() 6,400 times" in found.evidence[0]
    assert not found.changes_learning
    assert [f.name for f in diagnose(maker.evidence())] == ["per-row-copies"]


def test_other_lines_of_the_loop_belong_to_it(maker: Maker, script: Path) -> None:
    index = maker.stack(maker.own(line_of(script, "# index")), maker.own(99, "push"))
    line = line_of(script, "# copy")
    maker.site("item", line, 6400)
    maker.site("cpu", line, 6400)
    train(maker, script, {maker.stack(maker.own(line)): 0.3, index: 0.2})
    (found,) = detect_row_copies(maker.evidence())
    assert (found.share, found.line) == (pytest.approx(0.5), line)
    assert found.title.startswith("128 values a step")
    assert not list(detect_row_loops(maker.evidence()))  # once is enough


def test_few_copies_are_none(maker: Maker, script: Path) -> None:
    assert not copying(maker, script, 0.6, count=100)  # once a step


def test_copies_that_cost_nothing_are_not_reported(maker: Maker, script: Path) -> None:
    (found,) = copying(maker, script, 0.04)
    assert found.certainty < 0.95
    assert not diagnose(maker.evidence())


def test_few_looks_make_nobody_sure(maker: Maker, script: Path) -> None:
    maker.raw["looks"] = 10
    (found,) = copying(maker, script, 0.15)
    assert found.certainty < 0.95
    maker.raw["looks"] = 2000
    assert next(detect_row_copies(maker.evidence())).certainty > 0.95


@pytest.mark.parametrize("mark", ["# step", "# learn"])
def test_a_loop_that_trains_is_not_one_over_rows(maker: Maker, script: Path, mark: str) -> None:
    line = line_of(script, mark)
    maker.site("item", line, 6400)
    update = maker.stack(maker.own(line_of(script, "# learn")), maker.own(line_of(script, "# backward"), "learn"),
                         library("torch/autograd/__init__.py"))  # fmt: skip
    train(maker, script, {maker.stack(maker.own(line)): 0.3, update: 0.3})
    assert not list(detect_row_copies(maker.evidence()))


def looping(maker: Maker, script: Path, share: float) -> list[Finding]:
    train(maker, script, {maker.stack(maker.own(line_of(script, "# index"))): share})
    return list(detect_row_loops(maker.evidence()))


def test_a_loop_over_rows(maker: Maker, script: Path) -> None:
    (found,) = looping(maker, script, 0.5)
    assert (found.name, found.line) == ("row-loop", line_of(script, "# index"))
    assert found.share == pytest.approx(0.5)
    assert found.speedup == pytest.approx(1 / (0.5 + 0.5 / BATCHED))
    assert "for i in range(64):  # rows" in found.evidence[1]
    assert [f.name for f in diagnose(maker.evidence())] == ["row-loop"]


def test_a_loop_that_costs_nothing_is_not_reported(maker: Maker, script: Path) -> None:
    assert not looping(maker, script, 0.009)
    looping(maker, script, 0.04)
    assert not diagnose(maker.evidence())


def test_a_loop_within_the_environment_is_its_affair(maker: Maker, script: Path) -> None:
    inside = maker.stack(
        maker.own(line_of(script, "# step")),
        stand_in(Phase.ENVIRONMENT),
        maker.own(line_of(script, "# index")),
    )
    train(maker, script, {inside: 0.5})
    assert not list(detect_row_loops(maker.evidence()))


def listing(maker: Maker, script: Path, share: float) -> list[Finding]:
    line = line_of(script, "# list")
    frames = maker.own(line_of(script, "# learn")), maker.own(line, "learn")
    train(maker, script, {maker.stack(*frames): share})
    return list(detect_list_batches(maker.evidence()))


def test_batches_from_lists(maker: Maker, script: Path) -> None:
    (found,) = listing(maker, script, 0.7)
    assert (found.name, found.line) == ("list-batches", line_of(script, "# list"))
    assert found.share == pytest.approx(0.7)
    assert found.speedup == pytest.approx(1 / (0.3 + 0.7 / BATCHED))
    assert "70,000 µs for each of 100 updates" in found.evidence[0]
    assert [f.name for f in diagnose(maker.evidence())] == ["list-batches"]


def test_batches_from_lists_that_cost_nothing(maker: Maker, script: Path) -> None:
    (found,) = listing(maker, script, 0.04)
    assert found.certainty < 0.95


def test_a_healthy_training_has_no_rows(maker: Maker, script: Path) -> None:
    train(maker, script, {maker.stack(maker.own(line_of(script, "# backward"), "learn")): 0.5})
    evidence = maker.evidence()
    assert not [*detect_row_copies(evidence), *detect_row_loops(evidence), *detect_list_batches(evidence)]
