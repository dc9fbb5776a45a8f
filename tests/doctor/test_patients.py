"""The doctor's patients themselves: they run, they compute the same every time, and their cures do no harm."""

from __future__ import annotations

import random
import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

PATIENTS = Path(__file__).parent / "patients"

#: Every disease, with the fewest iterations in which its patient learns something.
ITERATIONS = {
    "compile_in_training": 20,
    "costly_messages": 100,
    "few_envs": 1,
    "graph_leak": 5,
    "growing_buffer": 50,
    "launch_bound": 150,
    "list_batches": 150,
    "longer_episodes": 5,
    "many_updates": 2,
    "no_grad_forgotten": 3,
    "per_row_copies": 5,
    "printing": 80,
    "python_env": 4,
    "row_loop": 4,
    "single_env_acting": 256,
    "slow_loader": 4,
    "slow_worker": 32,
    "subnormals": 5,
    "throughput_claim": 10,
    "too_many_threads": 3,
    "train_every_step": 220,
    "train_every_step__warm_up": 10_020,
}
#: Cured by learning less often, or from other data.
LEARNS_OTHERWISE = {
    "few_envs",
    "many_updates",
    "single_env_acting",
    "train_every_step",
    "train_every_step__warm_up",
}
#: The same sums, but perhaps in another order, or without their smallest numbers.
ROUNDS_OTHERWISE = {"subnormals", "too_many_threads"}

Run = Callable[..., dict[str, float]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run a script for some iterations; returns the numbers of its last line. Does not change torch's state."""
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)  # what it computes is tested here, not compiling
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()

    def script(name: str, iterations: int) -> dict[str, float]:
        torch.set_flush_denormal(False)  # as in a new process: the script before may have turned it on
        monkeypatch.setattr("sys.argv", [f"{name}.py", "--iterations", str(iterations)])
        capsys.readouterr()
        runpy.run_path(str(PATIENTS / f"{name}.py"), run_name="__main__")
        done, *figures = capsys.readouterr().out.splitlines()[-1].split()
        assert done == "DONE"
        return {key: float(value) for key, _, value in (figure.partition("=") for figure in figures)}

    yield script
    torch.set_flush_denormal(False)
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def marked(name: str) -> list[int]:
    lines = (PATIENTS / f"{name}.py").read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# disease")]


def test_every_patient_is_known_and_has_its_cure() -> None:
    found = {path.stem for path in PATIENTS.glob("*.py")}
    assert found == {"healthy", *ITERATIONS, *(f"{name}_cured" for name in ITERATIONS)}


@pytest.mark.parametrize("name", ITERATIONS)
def test_the_disease_is_marked_in_the_patient_and_gone_from_the_cured(name: str) -> None:
    assert marked(name)
    assert not marked(f"{name}_cured")


@pytest.mark.parametrize("path", sorted(PATIENTS.glob("*.py")), ids=lambda path: path.stem)
def test_patients_are_anybodys_scripts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"^\s*(import|from) flashdqn", text, re.MULTILINE)
    assert ("set_num_threads(1)" in text) == (path.stem != "too_many_threads")
    assert ("set_flush_denormal(True)" in text) == (path.stem != "subnormals")


@pytest.mark.parametrize("name", ITERATIONS)
def test_patient_and_cured_do_the_same_work(name: str, run: Run) -> None:
    sick, again, cured = (run(which, ITERATIONS[name]) for which in (name, name, f"{name}_cured"))
    assert sick["updates"] > 0
    assert again["checksum"] == sick["checksum"]
    assert cured["transitions"] == sick["transitions"]
    if name not in LEARNS_OTHERWISE:
        assert cured["updates"] == sick["updates"]
        tolerance = 1e-6 if name in ROUNDS_OTHERWISE else 0.0
        assert cured["checksum"] == pytest.approx(sick["checksum"], rel=tolerance, abs=0.0)


@pytest.mark.parametrize("name", ["many_updates", "train_every_step"])
def test_the_cure_of_too_much_learning_is_less_of_it(name: str, run: Run) -> None:
    sick, cured = run(name, ITERATIONS[name]), run(f"{name}_cured", ITERATIONS[name])
    assert 0 < cured["updates"] < sick["updates"]


def test_the_healthy_script_runs(run: Run) -> None:
    assert run("healthy", 5) | {"seconds": 0.0} == run("healthy", 5) | {"seconds": 0.0}
