"""The machine's patches for the patients: each fits, and the patched script computes what the patient computes."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from record_maker import Maker, library, stand_in

from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import propose_patches
from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.kinds import Phase

PATIENTS = Path(__file__).parent / "patients"
#: Patients with the patches that fit them, and the iterations in which each learns something.
CURED = {
    "graph_leak": (["detach", "detach-2"], 5),
    "growing_buffer": (["running-mean"], 50),
    "list_batches": (["arrays-in-replay", "array-first"], 150),
    "many_updates": (["fewer-updates"], 2),
    "no_grad_forgotten": (["no-grad"], 3),
    "per_row_copies": (["batched-push", "one-copy"], 5),
    "printing": (["print-rarely"], 80),
    "row_loop": (["all-rows-at-once"], 4),
    "subnormals": (["flush-subnormals"], 5),
    "throughput_claim": (["count-once"], 10),
    "too_many_threads": (["threads"], 3),
    "train_every_step": (["train-rarely"], 220),
}
LEARNS_LESS = {"fewer-updates", "train-rarely"}
#: Found out by running it: lists of floats become float64, which the network refuses. Such a patch is not kept.
REFUSED = {"array-first"}
TITLES = {
    "throughput_claim": "The script says it is 8.0 times faster than it is",
    "too_many_threads": "16 threads for work that is faster with 1",
}

Run = Callable[[str, str, int], dict[str, float]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run a text for some iterations; returns the numbers of its last line. Does not change torch's state."""
    states, threads = (
        (random.getstate(), np.random.get_state(), torch.get_rng_state()),
        torch.get_num_threads(),
    )

    def script(name: str, text: str, iterations: int) -> dict[str, float]:
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        torch.set_flush_denormal(False)
        monkeypatch.setattr("sys.argv", [path.name, "--iterations", str(iterations)])
        capsys.readouterr()
        runpy.run_path(str(path), run_name="__main__")
        done, *figures = capsys.readouterr().out.splitlines()[-1].split()
        assert done == "DONE"
        return {key: float(value) for key, _, value in (figure.partition("=") for figure in figures)}

    yield script
    torch.set_flush_denormal(False)
    torch.set_num_threads(threads)
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def mark_lines(path: Path) -> list[int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# disease")]


def propose(name: str) -> list[Patch]:
    """The patches for a patient, from a record made by hand that has its disease at the marked lines."""
    path = PATIENTS / f"{name}.py"
    lines, text = mark_lines(path), path.read_text(encoding="utf-8").splitlines()
    maker = Maker(path, threads=16, widths={"8": 100})
    hot = {maker.stack(maker.own(line)): 0.1 if "states" in text[line - 1] else 0.02 for line in lines}
    update = maker.stack(maker.own(lines[0]), stand_in(Phase.BACKWARD), library("torch/autograd/__init__.py"))
    maker.train({**hot, update: 0.1}, transitions=100, vector_steps=100, updates=25)
    for line in lines:
        maker.site("print", line, 1000)
        maker.forward(line, 1000, 1.0, graded=1000, trained=False)
    steps = [number for number, line in enumerate(text, 1) if "env.step(" in line]
    for line in steps:
        maker.site("env step", line, 1000)
    title = TITLES.get(name, "title")
    disease = name.replace("_", "-")
    places = lines if name == "graph_leak" else lines[-1:] if name != "many_updates" else lines[:1]
    findings = [Finding(disease, title, str(path), line, 0.5, 2.0, (), "", "") for line in places]
    evidence = maker.evidence()
    return propose_patches(evidence, tuple(findings))


@pytest.mark.parametrize("name", CURED)
def test_patches_fit_and_the_patched_script_computes_the_same(name: str, run: Run) -> None:
    patches = propose(name)
    wanted, iterations = CURED[name]
    assert [patch.name for patch in patches] == wanted
    sick = run(name, patches[0].before, iterations)
    for patch in patches:
        if patch.name in REFUSED:
            with pytest.raises(RuntimeError):
                run(name, patch.after, iterations)
            continue
        cured = run(name, patch.after, iterations)
        assert cured["transitions"] == sick["transitions"]
        if patch.name in LEARNS_LESS:
            assert patch.changes_learning
            assert 0 < cured["updates"] < sick["updates"]
        else:
            tolerance = 1e-6 if patch.changes else 0.0
            assert cured["updates"] == sick["updates"]
            assert cured["checksum"] == pytest.approx(sick["checksum"], rel=tolerance, abs=0.0)


@pytest.mark.parametrize(
    "name", ["compile_in_training", "longer_episodes", "python_env", "single_env_acting"]
)
def test_what_no_machine_can_cure_gets_no_patch(name: str) -> None:
    assert propose(name) == []


def test_a_patch_leaves_every_other_line_alone() -> None:
    (patch,) = propose("printing")
    before, after = patch.before.splitlines(), patch.after.splitlines()
    marked = {line.strip() for line in before if line.endswith("# disease")}
    assert [line for line in before if line.strip() not in marked] == [
        line for line in after if line.strip() not in marked and "% 100 == 0" not in line
    ]
    assert replace(patch, edits=()).after == patch.before
