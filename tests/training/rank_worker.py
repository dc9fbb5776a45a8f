"""A rank of a test: a process that trains by the real parts, and writes what it has come to."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from rank_twin import make_config
from safetensors.torch import save_file

from flashdqn.compute.graphs import ExecutionPlan
from flashdqn.compute.ranks import ALONE, Ranks, start_ranks
from flashdqn.compute.threads import limit_threads
from flashdqn.core.rank_place import read_place
from flashdqn.envs import build_env, build_evaluation_env
from flashdqn.runs.folder import RunFolder
from flashdqn.training.assemble import Parts, assemble_parts
from flashdqn.training.autotune import warm_up_plan
from flashdqn.training.engine import Engine
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent
from flashdqn.training.rank_share import share_config
from flashdqn.training.warmup import restore_after


def train(job: dict[str, object], ranks: Ranks, out: Path) -> None:
    """Some iterations of one algorithm in one mode."""
    device = torch.device(str(job.get("device", "cpu")))
    changes = {"device": device.type} | dict(job.get("changes", {}))  # type: ignore[call-overload]
    config = make_config(str(job["algo"]), **changes)
    own = share_config(config, ranks)
    parts = assemble_parts(own, build_env(own.env, own.envs, device), ranks)
    engine = Engine(own, parts)
    if job.get("graph"):
        with restore_after(own, parts):
            warm_up_plan(engine, ExecutionPlan(job["way"], graph=True))  # type: ignore[arg-type]
    else:
        engine.use(ExecutionPlan(job["way"]))  # type: ignore[arg-type]
        if job["way"] != "eager":  # rounding must not choose another action
            engine.backend.act = parts.collector.act  # type: ignore[method-assign]
    games = build_evaluation_env(own.env, own.eval.episodes, device)
    loop = Loop(config, parts, RunFolder(out), Silent(), games, engine)
    parts.start()
    for _ in range(int(job["iterations"])):  # type: ignore[call-overload]
        loop.iterate()
    save_file(describe(loop, parts), out / f"{job['name']}-{ranks.rank}.safetensors")


def describe(loop: Loop, parts: Parts) -> dict[str, torch.Tensor]:
    """Weights and target, the ring, and the totals of all ranks."""
    learner, ring = parts.learner, parts.ring
    totals = [parts.counts.transitions, parts.counts.episodes, learner.updates]
    result = loop.evaluator.evaluate_last(learner, loop.interrupt, 0.0)
    found = {
        "weights": learner.flat.values,
        "target": learner.target_flat.values,
        "obs": ring.obs,
        "action": ring.action,
        "kind": ring.kind,
        "totals": torch.tensor(totals),
        "score": torch.tensor([result.mean_score, result.mean_length, result.episodes]),
    }
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in found.items()}


def main() -> None:
    """Do the jobs that a file lists, as the rank that the environment names; alone if it names none."""
    out, device = Path(sys.argv[1]), torch.device(sys.argv[2])
    place = read_place()
    ranks = ALONE if place is None else start_ranks(place, device)
    with limit_threads(1, 1):
        for job in json.loads((out / "jobs.json").read_text(encoding="utf-8")):
            train(job, ranks, out)
    ranks.end()


if __name__ == "__main__":
    main()
