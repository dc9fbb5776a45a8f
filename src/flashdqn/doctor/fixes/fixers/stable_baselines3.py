"""Stable-Baselines3 makes the optimizer itself: the user's own line hands the flag on."""

from __future__ import annotations

from collections.abc import Iterator

from flashdqn.doctor.evidence import Evidence
from flashdqn.doctor.fixes.fixers.optimizer import CAN_FUSE, add_keyword
from flashdqn.doctor.fixes.patch import Patch
from flashdqn.doctor.fixes.propose import fixes
from flashdqn.doctor.fixes.script_text import open_script
from flashdqn.doctor.libraries.stable_baselines3 import find_model
from flashdqn.doctor.libraries.user_calls import imports_package
from flashdqn.doctor.report.contents import Finding

FUSED = "policy_kwargs=dict(optimizer_kwargs=dict(fused=True))"


@fixes("unfused-optimizer", "launch-bound")
def fix_policy_optimizer(evidence: Evidence, finding: Finding) -> Iterator[Patch]:
    """`policy_kwargs` for a model that has none yet."""
    if not imports_package(evidence, "stable_baselines3", "sb3_contrib"):
        return
    if not {use.name for use in evidence.record.optimizers} <= set(CAN_FUSE):
        return
    model = find_model(evidence)
    script = open_script(model.file) if model is not None else None
    if model is None or script is None:
        return
    said = {keyword.arg for keyword in model.call.keywords}
    if "policy_kwargs" in said or None in said:
        return
    yield Patch(
        name="fused-policy",
        finding=finding,
        file=script.file,
        before=script.text,
        edits=(add_keyword(script, model.call, FUSED),),
        what=FUSED,
        changes="rounding",
    )
