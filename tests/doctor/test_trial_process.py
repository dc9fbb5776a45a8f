"""Trials for real: a small training in its own process, untouched, cured, patched and broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from watching import write_script

from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.cures.same_numbers import Sameness, compare_numbers
from flashdqn.doctor.cures.trial_process import TrialSetup, run_trial
from flashdqn.doctor.run import Patient
from flashdqn.doctor.watch.kinds import Ending

pytestmark = [pytest.mark.slow, pytest.mark.process]

SCRIPT = """
    import numpy as np
    import torch
    from helper import STEPS


    class Env:
        def reset(self):
            return np.zeros(3)

        def step(self, action):
            return np.random.default_rng().normal(size=3), 0.0, False, False, {}


    env, network = Env(), torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    for step in range(STEPS):
        obs = env.step(0)[0]
        loss = network(torch.as_tensor(obs, dtype=torch.float32)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("threads", torch.get_num_threads())
"""


@pytest.fixture
def setup(tmp_path: Path) -> TrialSetup:
    (tmp_path / "helper.py").write_text("STEPS = 40\n", encoding="utf-8")
    script = write_script(tmp_path, SCRIPT)
    return TrialSetup(Patient(str(script)), 30.0, 60.0, waits_for_updates=True)


def test_a_script_without_seeds_repeats_itself_and_a_cure_is_put_in(setup: TrialSetup) -> None:
    runs = [run_trial(setup, None) for _ in range(2)]
    for run in runs:
        assert run.ended is Ending.FINISHED
        assert (run.series[-1].transitions, run.series[-1].updates) == (40, 40)
        assert [digest.updates for digest in run.digests] == [1, 2, 4, 8, 16, 32]
    cures = (("threads", {"number": 1}), ("optimizer-flag", {"flag": "fused"}))
    cured = run_trial(setup, Cure("both", "finding", "what", 2.0, cures))
    assert cured.applied == ("torch.set_num_threads(1)", "Adam(…, fused=True)")
    assert compare_numbers(runs, runs[:1]).sameness is Sameness.EQUAL
    assert compare_numbers(runs, [cured]).sameness in (Sameness.EQUAL, Sameness.ROUNDED)


def test_patched_sources_run_in_the_place_of_the_script_and_of_its_modules(setup: TrialSetup) -> None:
    script = Path(setup.patient.script)
    helper = script.with_name("helper.py")
    text = script.read_text(encoding="utf-8").replace("lr=0.1", "lr=0.2")
    patched = Cure(
        "patch", "finding", "what", 2.0, (("patched", {}),), {str(script): text, str(helper): "STEPS = 9\n"}
    )
    run = run_trial(setup, patched)
    assert (run.series[-1].updates, run.applied) == (9, ("the patched source",))
    assert "lr=0.1" in script.read_text(encoding="utf-8")
    assert helper.read_text(encoding="utf-8") == "STEPS = 40\n"


def test_what_goes_wrong_is_in_the_record(setup: TrialSetup) -> None:
    script = Path(setup.patient.script)
    broken = Cure("patch", "finding", "what", 2.0, (("patched", {}),), {str(script): "import torch\n1 / 0\n"})
    run = run_trial(setup, broken)
    assert run.ended is Ending.FAILED
    assert run.error.rstrip().endswith("ZeroDivisionError: division by zero")


def test_an_endless_script_is_ended_with_all_that_it_started(
    setup: TrialSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = Path(setup.patient.script)
    text = (
        "import subprocess, torch\nchild = subprocess.Popen(['sleep', '600'])\nprint(child.pid, flush=True)\n"
    )
    text += "open('child', 'w').write(str(child.pid))\n" + SCRIPT.replace("\n    ", "\n").replace(
        "STEPS)", "10**9)"
    )
    cure = Cure("patch", "finding", "what", 2.0, (("patched", {}),), {str(script): text})
    short = TrialSetup(Patient(str(script), python=setup.patient.python), 0.5, 60.0, waits_for_updates=True)
    run = run_trial(short, cure)
    assert run.ended is Ending.STOPPED
    assert run.series[-1].updates > 0
    pid = Path("child").read_text(encoding="utf-8")
    Path("child").unlink()
    status = Path(f"/proc/{pid}/status")
    assert not status.exists() or "zombie" in status.read_text(encoding="utf-8")
