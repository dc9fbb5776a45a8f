"""Networks with randomness of their own, and rollouts: stopped and resumed is never stopped, bit by bit."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flashdqn
from flashdqn import Run
from flashdqn.runs import checkpoint
from flashdqn.show.report import RUN_PAGES
from flashdqn.training.loop import Loop

#: A rollout has 320 transitions, so that the moments below lie inside of one.
PQN = {
    "learn__method": "pqn",
    "learn__optimizer": "radam",
    "network__layer_norm": True,
    "pqn__rollout": 20,
    "pqn__minibatches": 4,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "noisy": {"network__noisy": True, "explore__start": 0.0, "explore__end": 0.0},
    "iqn": {"learn__head": "iqn", "learn__bootstrap": "greedy", "network__hidden": [16, 16]},
    "noisy dueling iqn, double, by priority": {
        "network__noisy": True,
        "network__dueling": True,
        "learn__head": "iqn",
        "replay__priority": 0.5,
    },
    "rainbow": {
        "learn__head": "categorical",
        "network__noisy": True,
        "network__dueling": True,
        "replay__priority": 0.5,
        "replay__n_step": 3,
        "explore__start": 0.0,
        "explore__end": 0.0,
    },
    "munchausen by quantiles": {"learn__head": "quantile", "learn__bootstrap": "munchausen"},
    "pqn": PQN,
    "pqn with noise and falling lr": {
        **PQN,
        "network__noisy": True,
        "learn__lr_end": 1e-5,
        "learn__lr_over": 2000,
    },
}
SHORT = {"steps": 2500, "eval__every": 900, "learn__batch_size": 16}


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUN_PAGES, "learning curve", lambda path: None)


def everything(run: Path) -> dict[str, Any]:
    """All that the newest checkpoint holds, as bytes, but for the clocks."""
    point = checkpoint.list_checkpoints(run / "checkpoints", with_state=True)[-1]
    weights, state, counters = checkpoint.load_checkpoint(point, with_state=True)
    tensors = {f"weights.{name}": x for name, x in weights.items()} | state
    content: dict[str, Any] = {name: x.numpy().tobytes() for name, x in tensors.items()}
    return content | {
        name: x for name, x in counters.items() if name not in ("seconds", "time", "evaluations")
    }


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("moment", [60, 1250])
def test_interrupted_and_resumed_is_never_stopped(
    variant: str, moment: int, tiny_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    never = tiny_run(**SHORT, **VARIANTS[variant])
    iterate, fired = Loop.iterate, []

    def interrupted(self: Loop) -> None:
        iterate(self)
        if not fired and self.parts.counts.transitions >= moment:
            fired.append(True)
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "iterate", interrupted)
        stopped = tiny_run(**SHORT, **VARIANTS[variant])
    assert not stopped.finished
    resumed = flashdqn.train(resume=stopped.path, progress=False)
    mine, other = everything(resumed.path), everything(never.path)
    assert mine.keys() == other.keys()
    assert [name for name in mine if mine[name] != other[name]] == []
    assert resumed.summary["evaluation"] == never.summary["evaluation"]


def test_the_randomness_is_in_the_checkpoint(tiny_run: Callable[..., Run]) -> None:
    names = everything(tiny_run(steps=400, **VARIANTS["noisy dueling iqn, double, by priority"]).path).keys()
    for part in ("generator.noise", "generator.fractions"):
        assert part in names
    assert any(name.startswith("weights.") and name.endswith("noise_in") for name in names)
    assert any(name.startswith("learner.target.") and name.endswith("noise_out") for name in names)


@pytest.mark.parametrize("variant", ["noisy", "iqn", "pqn"])
def test_what_is_only_watched_does_not_change_what_is_learned(
    variant: str, tiny_run: Callable[..., Run]
) -> None:
    """Evaluating and warming up draw none of the noise that training draws."""
    plain = tiny_run(**SHORT, **VARIANTS[variant])
    watched = tiny_run(**{**SHORT, "eval__every": 300}, runtime__warmup=True, **VARIANTS[variant])
    assert watched.summary["weights"] == plain.summary["weights"]
