"""A sweep from its beginning to its report: search, confirm, say what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashdqn.core.errors import CheckpointError
from flashdqn.core.signals import Interrupt, find_exit_code
from flashdqn.sweep.budget import SweepClock
from flashdqn.sweep.confirm import Claim, Confirmation, read_claim
from flashdqn.sweep.display import SweepProgress
from flashdqn.sweep.folder import SweepFolder, SweepPlan
from flashdqn.sweep.pool import TrialPool
from flashdqn.sweep.results import TrialResult, choose_winner, list_results
from flashdqn.sweep.search import USED, Pool, Search
from flashdqn.sweep.study import StudyPlan, open_study


@dataclass(frozen=True)
class SweepEnd:
    """How a sweep ended."""

    folder: SweepFolder
    plan: SweepPlan
    results: list[TrialResult]
    winner: TrialResult | None
    claim: Claim | None
    exit_code: int = 0

    @property
    def finished(self) -> bool:
        """Whether it was not stopped by a signal."""
        return self.exit_code == 0


def run_sweep(
    plan: SweepPlan,
    folder: SweepFolder,
    display: SweepProgress,
    write_page: Callable[[Path], object],
    working_folder: bool = False,
    ray_address: str = "",
) -> SweepEnd:
    """Run a sweep in its folder, or go on with it."""
    with folder.locked(), Interrupt(waits=True) as interrupt:
        study = open_study(folder.path, make_study_plan(plan))
        clock = SweepClock(plan.budget, plan.jobs, float(study.user_attrs.get(USED, 0.0)))
        try:
            with open_pool(plan, working_folder, ray_address) as pool, display:
                done = run_phases(plan, folder, study, pool, clock, display, interrupt)
        finally:
            with suppress(CheckpointError):
                study.set_user_attr(USED, round(clock.used, 1))
        results = list_results(study, plan.space)
        write_page(folder.path)
    claim = read_claim(folder.read_confirmations()) if done else None
    code = 0 if done or interrupt.signal is None else find_exit_code(interrupt.signal)
    return SweepEnd(folder, plan, results, choose_winner(results), claim, code)


@contextmanager
def open_pool(plan: SweepPlan, working_folder: bool, ray_address: str) -> Iterator[Pool]:
    """Where the trials run; when it is left, none of them runs on."""
    if plan.launcher == "local":
        with TrialPool(plan.jobs, working_folder) as pool:
            yield pool
        return
    from flashdqn.cluster.ray_link import connect_ray
    from flashdqn.sweep.ray_tune import TunePool

    with connect_ray(ray_address, plan.jobs):
        yield TunePool(plan.jobs, working_folder)


def run_phases(
    plan: SweepPlan,
    folder: SweepFolder,
    study: Any,
    pool: Pool,
    clock: SweepClock,
    display: SweepProgress,
    interrupt: Interrupt,
) -> bool:
    """Search, then confirm; False if a signal has stopped it."""
    if not Search(plan, folder, study, pool, clock, display).run(interrupt):
        return False
    winner = choose_winner(list_results(study, plan.space))
    if winner is None or winner.label or plan.seeds == 0:
        return True
    display.note(
        f"Trial {winner.number} is the best. It and the preset are trained again on {plan.seeds} fresh seeds."
    )
    return Confirmation(plan, folder, pool, clock, winner).run(interrupt, display)


def make_study_plan(plan: SweepPlan) -> StudyPlan:
    """Optuna's part of the plan."""
    return StudyPlan(plan.sampler, plan.pruner, plan.objective, plan.base.seed)
