"""From turns to outcomes: every contender beside the baseline."""

from __future__ import annotations

from flashdqn.config import Config
from flashdqn.profile.compare import compute_speed_up, compute_spread, judge_speed_up
from flashdqn.profile.contest import Contender, ExperimentContest
from flashdqn.profile.experiments import AGAIN, BASELINE, relative_ratio
from flashdqn.profile.result import Outcome, RoundSpread, Verdict


def collect_outcomes(contest: ExperimentContest, config: Config) -> list[Outcome]:
    """Of all that took a turn; empty where the baseline did not."""
    turned = [one for one in contest.contenders if one.turns]
    base = next((one for one in turned if one.experiment is BASELINE), None)
    if base is None:
        return []
    again = next((one for one in turned if one.experiment is AGAIN), None)
    noise = None if again is None else compute_speed_up(again.rates, base.rates)
    return [make_outcome(one, base, noise, config) for one in turned]


def make_outcome(one: Contender, base: Contender, noise: RoundSpread | None, config: Config) -> Outcome:
    """One contender's, in figures."""
    experiment, training, turns = one.experiment, one.training, one.turns
    found = compute_speed_up(one.rates, base.rates)
    rounds = min(len(turns), len(base.turns))
    judged: Verdict = "baseline"
    if experiment.role != "baseline":
        judged = judge_speed_up(found, rounds, noise)
    transitions, updates = sum(t.transitions for t in turns), sum(t.updates for t in turns)
    changed_mode = training.mode != base.training.mode and experiment.group not in ("modes", "recommended")
    return Outcome(
        name=experiment.name,
        group=experiment.group,
        settings=dict(experiment.settings),
        flags=experiment.flags,
        role=experiment.role,
        learning=experiment.learning,
        verdict=judged,
        speed_up=found,
        transitions_per_second=compute_spread(one.rates),
        updates_per_second=updates / sum(t.seconds for t in turns),
        ratio_asked=training.ratio_asked,
        ratio_done=updates / transitions if transitions else 0.0,
        relative_ratio=relative_ratio(experiment.of(config), config),
        mode=training.mode,
        threads=training.threads,
        rounds=rounds,
        remark=f"it ran in mode {training.mode}" if changed_mode else "",
    )
