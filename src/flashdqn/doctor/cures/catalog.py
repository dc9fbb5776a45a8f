"""The cures of one setting: which of them answer the findings of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from flashdqn.doctor.cures.cure import Cure
from flashdqn.doctor.cures.evaluation import mark_evaluations
from flashdqn.doctor.cures.readings import find_wasted_places, read_best_threads
from flashdqn.doctor.cures.silence import remove_prints
from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.report.contents import Finding, Limit

Maker = Callable[[Evidence, Finding], Iterator[Cure]]

ROUNDING = "sums in another order: rounding"


def list_cures(evidence: Evidence, findings: tuple[Finding, ...], limit: Limit = Limit.UNKNOWN) -> list[Cure]:
    """Each cure that answers one of the findings, once, in the order of the findings. Where many small operations
    limit a training, what makes them fewer is tried in any case, without a prediction."""
    found: dict[str, Cure] = {}
    for finding in findings:
        for make in MAKERS.get(finding.name, ()):
            for cure in make(evidence, finding):
                found.setdefault(cure.name, cure)
    if limit is Limit.LAUNCHES:
        for cure in list_launch_cures(evidence):
            found.setdefault(cure.name, cure)
    return list(found.values())


def list_launch_cures(evidence: Evidence) -> Iterator[Cure]:
    """Fewer and larger operations: fused optimizers and, on a GPU, compiled networks. (On a CPU compiling a small
    network takes longer than a trial, and seldom pays.)"""
    cures: dict[str, tuple[str, tuple[str, dict[str, object]]]] = {}
    if any(use.can_fuse and not use.fused for use in evidence.record.optimizers):
        cures["fused"] = "fused=True in the optimizer", ("optimizer-flag", {"flag": "fused"})
    if evidence.record.device == "cuda":
        cures["compile"] = "network.compile()", ("compile", {})
    for name, (what, injection) in cures.items():
        yield Cure(name, "many small operations", what, math.nan, (injection,), changes="rounding")


def make_threads(evidence: Evidence, finding: Finding) -> Iterator[Cure]:
    """The number of threads that was the fastest in the probe."""
    number = read_best_threads(finding)
    yield Cure(
        name="threads",
        finding=finding.name,
        what=f"torch.set_num_threads({number})",
        predicted=finding.speedup,
        injections=(("threads", {"number": number}),),
        changes=ROUNDING,
    )


def make_optimizer_flag(flag: str) -> Maker:
    """`fused=True` or `foreach=True` for every optimizer that knows it."""

    def make(evidence: Evidence, finding: Finding) -> Iterator[Cure]:
        yield Cure(
            name=flag,
            finding=finding.name,
            what=f"{flag}=True in the optimizer",
            predicted=finding.speedup,
            injections=(("optimizer-flag", {"flag": flag}),),
            changes="rounding",
        )

    return make


def make_setting(name: str, injection: str, what: str, changes: str = "") -> Maker:
    """A setting without any parameter."""

    def make(_: Evidence, finding: Finding) -> Iterator[Cure]:
        yield Cure(name, finding.name, what, finding.speedup, ((injection, {}),), changes=changes)

    return make


def make_no_grad(evidence: Evidence, finding: Finding) -> Iterator[Cure]:
    """No graph at the lines that waste one."""
    places = find_wasted_places(evidence.record)
    yield Cure(
        name="no-grad",
        finding=finding.name,
        what=f"torch.no_grad() at {len(places)} line{'s' * (len(places) != 1)}",
        predicted=finding.speedup,
        injections=(("no-grad", {"places": places}),),
    )


def make_silence(evidence: Evidence, finding: Finding) -> Iterator[Cure]:
    """Nothing is printed; where the source prints in plain statements, the texts are not made either."""
    yield Cure(
        name="no-print",
        finding=finding.name,
        what="print() off",
        predicted=finding.speedup,
        injections=(("silent", {}),),
        replaced=remove_prints(evidence.record),
    )


def make_no_evaluation(evidence: Evidence, finding: Finding) -> Iterator[Cure]:
    """Evaluations run once only; work is counted in updates, because evaluations make transitions, too."""
    replaced = mark_evaluations(evidence, finding)
    if replaced:
        yield Cure(
            name="no-eval",
            finding=finding.name,
            what="evaluations run once only",
            predicted=finding.speedup,
            injections=(("first-result", {}),),
            replaced=replaced,
            changes="what evaluations draw from random numbers",
            unit="updates",
        )


TF32 = make_setting("tf32", "tf32", 'torch.set_float32_matmul_precision("high")', "products with 10 bits")
BF16 = make_setting("bfloat16", "bfloat16", "torch.autocast with bfloat16", "products with 8 bits")
COMPILE = make_setting("compile", "compile", "network.compile()", "rounding")
#: By the finding's name; findings without a cure of one setting have none.
MAKERS: dict[str, tuple[Maker, ...]] = {
    "too-many-threads": (make_threads,),
    "unfused-optimizer": (make_optimizer_flag("fused"), make_optimizer_flag("foreach")),
    "subnormals": (
        make_setting("flush", "flush", "torch.set_flush_denormal(True)", "tiny numbers are zero"),
    ),
    "no-grad-forgotten": (make_no_grad,),
    "target-with-grad": (make_no_grad,),
    "printing": (make_silence,),
    "evaluation-share": (make_no_evaluation,),
    "logging": (make_setting("no-log", "no-logger", "loggers and figures off"),),
    "sleeping": (make_setting("no-sleep", "awake", "sleeps and frame rates off"),),
    "step-jitter": (make_setting("rare-gc", "rare-collector", "gc.freeze() and rare collections"),),
    "zero-grad-memset": (make_setting("set-to-none", "set-to-none", "zero_grad(set_to_none=True)"),),
    "tf32-off": (TF32,),
    "half-unused": (BF16,),
    "launch-bound": (COMPILE, make_optimizer_flag("fused")),
    "starved-device": (COMPILE,),
}
