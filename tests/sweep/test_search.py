"""The search with trials that are formulas: what is pruned, what fails, what a resumed sweep goes on with."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from fake_pool import FakePool

from conftest import tiny_config
from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.core.signals import Interrupt
from flashdqn.sweep.budget import SweepClock, compute_share, prepare_base, share_budget
from flashdqn.sweep.conduct import make_study_plan
from flashdqn.sweep.folder import SweepFolder, SweepPlan, read_plan
from flashdqn.sweep.results import DONE, FAILED, LOST, PRUNED, list_results, measure_importance
from flashdqn.sweep.search import MOST_FAILURES, Search, SweepFailedError
from flashdqn.sweep.study import JOURNAL, open_study, read_study

SPACE = {"learn": {"lr": {"low": 1e-5, "high": 1e-1, "log": True}, "batch_size": [16, 32]}}


class Quiet:
    """Shows nothing, remembers all."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.ended: list[int] = []

    def show_search(self, search: Search) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)

    def end_trial(self, result: Any, search: Search) -> None:
        self.ended.append(result.number)


def make_plan(tmp_path: Path, trials: int = 20, **changes: Any) -> SweepPlan:
    base = tiny_config(out=str(tmp_path), steps=1000, learn__lr=1e-3)
    return SweepPlan(base, SPACE, trials, changes.pop("budget", None), 2, **{"seeds": 0} | changes)


def make_search(plan: SweepPlan, folder: SweepFolder, pool: Any, clock: SweepClock | None = None) -> Search:
    study = open_study(folder.path, make_study_plan(plan))
    return Search(plan, folder, study, pool, clock or SweepClock(plan.budget, plan.jobs), Quiet())


def test_it_finds_the_best_learning_rate_and_prunes(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, trials=30, sampler="random")
    folder = SweepFolder.create(plan)
    pool = FakePool()
    search = make_search(plan, folder, pool)
    assert search.run(Interrupt(waits=True))
    assert len(search.results) == 30
    assert len(pool.started) == 30
    best = search.best
    assert best is not None
    assert best.score == max(one.score for one in search.results if one.state == DONE)
    states = [one.state for one in search.results]
    assert states.count(PRUNED) >= 3
    assert states.count(DONE) >= 5
    pruned = [one for one in search.results if one.state == PRUNED]
    assert all(one.steps < 1000 for one in pruned), "they ended early"
    assert all(len(one.points) == pool.evaluated[str(one.number)] - 1 for one in pruned)
    importance = measure_importance(search.study, search.space)
    assert importance["learn.lr"] > importance["learn.batch_size"]
    assert sum(importance.values()) == pytest.approx(1.0)


def test_the_presets_own_values_come_first(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, trials=3)
    search = make_search(plan, SweepFolder.create(plan), FakePool())
    search.run(Interrupt(waits=True))
    first = search.results[0]
    assert (first.label, first.values) == ("preset", {"learn.lr": 1e-3, "learn.batch_size": 32})
    assert all(one.label == "" for one in search.results[1:])


def test_failures_are_named_and_do_not_end_it(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, trials=9)
    pool = FakePool(jobs=1, fails=lambda count: "it broke" if count % 3 == 0 else None)
    search = make_search(plan, SweepFolder.create(plan), pool)
    assert search.run(Interrupt(waits=True))
    failed = [one for one in search.results if one.state == FAILED]
    assert [one.reason for one in failed] == ["it broke"] * 3
    assert len(search.results) == 9


def test_many_failures_in_a_row_end_it(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, trials=100)
    pool = FakePool(fails=lambda count: "it broke")
    search = make_search(plan, SweepFolder.create(plan), pool)
    with pytest.raises(SweepFailedError, match=r"10 trials failed one after the other.*it broke"):
        search.run(Interrupt(waits=True))
    assert len(search.study.trials) - len(search.running) == MOST_FAILURES


def test_combinations_that_settings_refuse_are_not_started(tmp_path: Path) -> None:
    data = {"learn": {"bootstrap": ["double", "munchausen"]}, "replay": {"n_step": [1, 3]}}
    plan = SweepPlan(make_plan(tmp_path).base, data, 12, None, 1, sampler="random", seeds=0)
    pool = FakePool(score=lambda config, share: 1.0)
    search = make_search(plan, SweepFolder.create(plan), pool)
    search.run(Interrupt(waits=True))
    refused = [one for one in search.results if one.reason.startswith("refused")]
    assert refused
    assert all("munchausen needs replay.n_step 1" in one.reason for one in refused)
    assert len(pool.started) == 12 - len(refused)


@pytest.mark.parametrize("stop_after", [1, 5, 17])
def test_a_stopped_sweep_loses_only_the_trials_in_flight(stop_after: int, tmp_path: Path) -> None:
    plan = make_plan(tmp_path, trials=8)
    folder = SweepFolder.create(plan)
    interrupt = Interrupt(waits=True)
    first = make_search(plan, folder, FakePool())
    first.begin()
    for _ in range(stop_after):
        first.fill()
        message = first.pool.receive(0)
        assert message is not None
        first.handle(message)
    before = {one.number: one for one in first.results if one.state in (DONE, PRUNED)}
    flying = [dict(live.values) for live in first.running.values()]
    assert flying
    # Nothing is told: as if the process was killed.
    again = make_search(plan, folder, FakePool())
    assert again.run(interrupt)
    after = {one.number: one for one in again.results}
    assert all(after[number] == one for number, one in before.items())
    lost = [one for one in again.results if one.reason == LOST]
    assert [dict(one.values) for one in lost] == flying
    tried_again = [dict(one.values) for one in again.results if one.state in (DONE, PRUNED)]
    assert all(values in tried_again for values in flying)
    assert sum(one.reason != LOST for one in again.results) == 8
    assert again.results[len(before) + len(lost)].number not in before


def test_a_torn_line_of_the_journal_is_cut(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, trials=4)
    folder = SweepFolder.create(plan)
    make_search(plan, folder, FakePool()).run(Interrupt(waits=True))
    file = folder.path / JOURNAL
    whole = file.read_bytes()
    with file.open("ab") as opened:
        opened.write(b'{"op_code": 5, "worker_id"')
    Path(f"{file}.lock").symlink_to(file)  # of the killed process
    study = open_study(folder.path, make_study_plan(plan))
    assert file.read_bytes().startswith(whole)
    assert b'"worker_id"{' not in file.read_bytes()
    assert len(list_results(study, plan.space)) == 4


@pytest.mark.parametrize("damage", [b"\n\n\n", b"not json\n{}\n", b'{"op_code": 99}\n'])
def test_a_damaged_journal_is_one_sentence(damage: bytes, tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    folder = SweepFolder.create(plan)
    (folder.path / JOURNAL).write_bytes(damage)
    with pytest.raises(CheckpointError, match=r"journal\.log is damaged"):
        open_study(folder.path, make_study_plan(plan))
    with pytest.raises(CheckpointError, match=r"journal\.log is damaged"):
        read_study(folder.path)


def test_two_objectives(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, trials=6, objective="both", pruner="none", sampler="nsga2")
    search = make_search(plan, SweepFolder.create(plan), FakePool())
    search.run(Interrupt(waits=True))
    assert all(one.state == DONE for one in search.results)
    best = search.study.best_trials
    assert all(len(trial.values) == 2 for trial in best)


class Clock:
    """Every question takes a second."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 1.0
        return self.seconds


def test_time_is_kept_for_confirming(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, trials=1000, budget=600.0, seeds=3)
    clock = SweepClock(plan.budget, plan.jobs, now=Clock())
    clock.took = [50.0]  # three rounds of confirming take 150 seconds
    search = make_search(plan, SweepFolder.create(plan), FakePool(), clock)
    search.study.set_user_attr = lambda *_: None
    clock.took = [50.0] * 10**6  # the mean stays
    assert search.run(Interrupt(waits=True))
    assert 0 < len(search.results) < 1000
    assert clock.left > 0
    assert clock.is_search_over(6)


def test_a_budget_is_shared_out() -> None:
    base = tiny_config(steps=5000)
    shared = share_budget(base, 1200.0, trials=64, seeds=5, jobs=2)
    assert shared.steps is None
    assert shared.max_time == pytest.approx(0.8 * 1200 / (32 + 5), abs=0.01)
    own = tiny_config(steps=None, max_time=7.0)
    assert share_budget(own, 1200.0, 64, 5, 2) is own
    assert share_budget(base, None, 64, 5, 2) is base
    with pytest.raises(ConfigError, match=r"leaves 0\.\d s of training for each"):
        share_budget(base, 60.0, trials=1000, seeds=5, jobs=2)


def test_what_all_trials_have_in_common() -> None:
    base = prepare_base(tiny_config(steps=4000, runtime__threads=0), 1, [])
    assert (base.eval.every, base.log.every, base.log.checkpoint_every) == (200, 200, 0)
    assert not base.log.tensorboard
    assert base.runtime.threads == 1
    assert prepare_base(tiny_config(steps=4000), 1, ["eval.every"]).eval.every == 1500
    timed = prepare_base(tiny_config(steps=None, max_time=9.0, eval__every=500_000), 1, [])
    assert timed.eval.every == timed.report_every


def test_shares_of_a_budget() -> None:
    assert compute_share(tiny_config(steps=1000), 250, 99.0) == 0.25
    assert compute_share(tiny_config(steps=None, max_time=10.0), 10**9, 5.0) == 0.5
    assert compute_share(tiny_config(steps=1000, max_time=10.0), 100, 5.0) == 0.5
    assert compute_share(tiny_config(steps=100), 10**9, 5.0) == 1.0
    assert SweepClock(None, 2).left == math.inf


def test_the_plan_survives_the_disk(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, trials=7, budget=60.0)
    folder = SweepFolder.create(plan)
    assert read_plan(folder.path) == plan
    with pytest.raises(CheckpointError, match="no sweep"):
        read_plan(tmp_path)
    with pytest.raises(CheckpointError, match="does not exist"):
        read_plan(tmp_path / "gone")
    file = folder.path / "sweep.json"
    file.write_text(file.read_text().replace('"trials": 7', '"trials": 8'))
    with pytest.raises(CheckpointError, match="checksum"):
        read_plan(folder.path)


def test_one_sweep_at_a_time_in_a_folder(tmp_path: Path) -> None:
    folder = SweepFolder.create(make_plan(tmp_path))
    with folder.locked(), pytest.raises(CheckpointError, match="being swept by another"):  # noqa: SIM117
        with SweepFolder(folder.path).locked():
            pass
